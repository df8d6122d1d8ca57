// From the bytes of a message, as gRPC read them, to what a handler takes.
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/messages/parse.h"

namespace tandem::transport {

// Calls `use` with the bytes of a message, in one piece. INTERNAL: gRPC cannot read its own buffer.
template <typename Use>
absl::Status WithBytes(const grpc::ByteBuffer& message, const Use& use) {
  grpc::Slice slice;
  if (!message.TrySingleSlice(&slice).ok() && !message.DumpToSingleSlice(&slice).ok()) {
    return absl::InternalError("the bytes of a message cannot be read");
  }
  return use(absl::string_view(reinterpret_cast<const char*>(slice.begin()), slice.size()));
}

// INVALID_ARGUMENT: as messages::Parse.
inline absl::Status Receive(const grpc::ByteBuffer& message, google::protobuf::Message& to) {
  return WithBytes(message, [&to](absl::string_view bytes) { return messages::Parse(bytes, to); });
}

// For a handler that parses by itself, now or later (WithBytes). Copies nothing.
inline absl::Status Receive(const grpc::ByteBuffer& message, grpc::ByteBuffer& to) {
  to = message;
  return absl::OkStatus();
}

}  // namespace tandem::transport
