// Limits of the wire that both sides keep.
#pragma once

namespace tandem::rpc {

inline constexpr int kMostMessageBytes = 1 << 20;  // of one message, both ways, at all services

}  // namespace tandem::rpc
