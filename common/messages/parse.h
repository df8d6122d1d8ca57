// From bytes that anybody may have sent to a message, within bounds of memory.
//
// Two bytes on the wire can become 60 or more in memory: an empty entry of a repeated message is an
// object. So what a message would take is estimated on the wire, before anything is allocated.
#pragma once

#include <google/protobuf/message.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::messages {

// What one parsed message may take. Sixteen times the most bytes of one message: lists of ids and
// distributions, which are what large messages have, take less.
inline constexpr size_t kMaxParsedBytes = size_t{16} << 20;

// What the bytes would take as a message of the type of `type`, from above. INVALID_ARGUMENT: they
// are no such message, and the error has the byte and the field where they stop making sense; or
// they would take more than kMaxParsedBytes, and the error names the field with the most entries.
// Takes time for each field of the bytes and allocates next to nothing. Thread-safe.
absl::StatusOr<size_t> ParsedBytes(absl::string_view bytes, const google::protobuf::Message& type);

// Fills `message`. Errors as ParsedBytes; a text that is not UTF-8 is another. The message is
// undefined then. Thread-safe.
absl::Status Parse(absl::string_view bytes, google::protobuf::Message& message);

}  // namespace tandem::messages
