// Refuses messages with fields or enum values that this build does not know. Protobuf keeps them
// silently; an old service would then ignore a new option silently, and give another output than asked for.
#pragma once

#include "absl/status/status.h"

namespace google::protobuf {
class Message;
}

namespace tandem::rpc {

// INVALID_ARGUMENT naming the first unknown field (message, path, field number) or enum value, at any
// depth; OK when there is none. Looks only at what is set. Thread-safe.
absl::Status RefuseUnknown(const google::protobuf::Message& message);

}  // namespace tandem::rpc
