// The messages that wait to be written on a stream, in order, bounded by number and by bytes.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/transport/stream.h"

namespace tandem::transport {

// The size of a message on the wire, in bytes.
template <typename Message>
size_t WireBytes(const Message& message) {
  return message.ByteSizeLong();
}
inline size_t WireBytes(const grpc::ByteBuffer& message) { return message.Length(); }

// Not thread-safe.
template <typename Message>
class WriteQueue {
 public:
  explicit WriteQueue(const StreamOptions& options)
      : max_messages_(options.max_queued), max_bytes_(options.max_queued_bytes) {}

  // `bytes`: WireBytes(message), which the caller computes before it takes its lock.
  // RESOURCE_EXHAUSTED, with the numbers: there is no room, and the message is gone. One that
  // finds no other has room, however large it is.
  absl::Status Push(Message message, size_t bytes) {
    if (messages_.size() >= max_messages_ ||
        (!messages_.empty() && bytes > max_bytes_ - std::min(bytes_, max_bytes_))) {
      return absl::ResourceExhaustedError(
          "the peer reads too slowly: " + std::to_string(messages_.size()) + " messages of " +
          std::to_string(bytes_) + " bytes waited for it; the most are " +
          std::to_string(max_messages_) + " messages or " + std::to_string(max_bytes_) + " bytes");
    }
    messages_.push_back({std::move(message), bytes});
    bytes_ += bytes;
    return absl::OkStatus();
  }

  // The oldest one. There must be one.
  Message Pop() {
    Message message = std::move(messages_.front().message);
    bytes_ -= messages_.front().bytes;
    messages_.pop_front();
    return message;
  }

  void Clear() {
    messages_.clear();
    bytes_ = 0;
  }
  bool empty() const { return messages_.empty(); }
  size_t size() const { return messages_.size(); }

 private:
  struct Waiting {
    Message message;
    size_t bytes = 0;
  };

  const size_t max_messages_;
  const size_t max_bytes_;
  std::deque<Waiting> messages_;
  size_t bytes_ = 0;  // of all of them
};

}  // namespace tandem::transport
