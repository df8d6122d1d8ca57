// Refuses what a newer peer sent and this build does not know. Protobuf keeps such fields silently; a
// service that ignored a new option would answer another question than was asked.
//
// Thread-safe. What a message type has to be searched for is worked out once a thread and type.
#pragma once

#include <google/protobuf/message.h>

#include "absl/status/status.h"

namespace tandem::messages {

// INVALID_ARGUMENT naming message type, path and field number of the first unknown field, or of the field
// with an unknown enum value, in `message` or any message in it.
absl::Status RefuseUnknown(const google::protobuf::Message& message);

// The same, of `message` itself only: for one whose parts are answered one by one.
absl::Status RefuseUnknownHere(const google::protobuf::Message& message);

}  // namespace tandem::messages
