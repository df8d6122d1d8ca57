// Refuses what a newer peer sent and this build does not know. Protobuf keeps such fields silently;
// a service that ignored a new option would not do what it was asked to do.
//
// Thread-safe. How to search a message type is worked out once per thread and type.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tandem::messages {

// INVALID_ARGUMENT naming message type, path and field number of the first unknown field, or of the
// field with an unknown enum value, in `message` or any message in it.
absl::Status RefuseUnknown(const google::protobuf::Message& message);

// The same, but only for the fields of `message` itself. For messages whose parts are answered one
// by one.
absl::Status RefuseUnknownHere(const google::protobuf::Message& message);

// For what clients send. Fields with numbers from 1000 on change nothing of the text
// (generation.proto), so they are not errors: up to 8 of them are added to `ignored`, each once, as
// "Type.NUMBER". All else is as above.
absl::Status RefuseUnknownOfClient(const google::protobuf::Message& message,
                                   std::vector<std::string>& ignored);

}  // namespace tandem::messages
