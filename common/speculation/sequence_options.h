// SequenceOptions (tokens.proto) as a service takes them: checked, and refused by name where a
// feature is not served yet, so that no option is ever ignored.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <variant>

#include "common/messages/refusal.h"
#include "common/speculation/sequence_settings.h"

namespace tandem::speculation {

internal::v1::SequenceOptions ToWire(const SequenceSettings& settings);

// `context_length`: the most that options.max_length may be. `vocabulary_size`: what listed ids
// must be below. The refusal is INVALID; its field begins with "options". RULE_UNSPECIFIED is
// refused: which rule is in force is decided before a service is asked.
std::variant<SequenceSettings, messages::Refusal> CheckSequenceOptions(
    const internal::v1::SequenceOptions& options, uint32_t context_length,
    uint32_t vocabulary_size);

}  // namespace tandem::speculation
