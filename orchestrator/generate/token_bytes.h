// What token ids stand for, for the clients that ask for it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tandem::orchestrator {

// What an id stands for within a text, maybe part of a character. A special token's name; empty for
// what is no token. Thread-safe.
using TokenBytes = std::function<std::string(uint32_t id)>;

}  // namespace tandem::orchestrator
