#include "common/http/queued_reply.h"

#include "absl/strings/str_cat.h"

namespace tandem::http {

void QueuedReply::Listen(std::shared_ptr<ReplyListener> listener) {
  concurrency::MutexLock lock(mutex_);
  if (const std::optional<bool> complete = forgotten_; complete.has_value()) {
    lock.Unlock();
    return listener->OnOver(*complete);
  }
  listener_ = std::move(listener);
  Tell();
}

void QueuedReply::Respond(Response response) {
  concurrency::MutexLock lock(mutex_);
  if (state_ != State::kNew) return;
  state_ = State::kOver;
  const std::string length = absl::StrCat("Content-Length: ", response.body.size(), "\r\n");
  std::string text = HeadText(response, length, framing_.keep_alive);
  if (!framing_.without_body) text += response.body;
  Add({std::move(text)});
}

void QueuedReply::Begin(Response response) {
  concurrency::MutexLock lock(mutex_);
  if (state_ != State::kNew) return;
  state_ = State::kStreaming;
  if (framing_.http_1_0) framing_.keep_alive = false;
  std::string text = HeadText(response, framing_.http_1_0 ? "" : "Transfer-Encoding: chunked\r\n",
                              framing_.keep_alive);
  text += framing_.http_1_0 ? std::move(response.body) : ChunkText(response.body);
  Add({std::move(text)});
}

void QueuedReply::Write(std::string piece) {
  concurrency::MutexLock lock(mutex_);
  if (state_ != State::kStreaming) return;
  Add({framing_.http_1_0 ? std::move(piece) : ChunkText(piece), /*counted=*/true});
}

void QueuedReply::End() {
  concurrency::MutexLock lock(mutex_);
  if (state_ != State::kStreaming) return;
  state_ = State::kOver;
  Add({framing_.http_1_0 ? std::string() : std::string(kLastChunk)});
}

void QueuedReply::Abort() {
  concurrency::MutexLock lock(mutex_);
  if (aborted_) return;
  state_ = State::kOver;
  aborted_ = true;
  pieces_.clear();
  Tell();
}

QueuedReply::Batch QueuedReply::Take() {
  concurrency::MutexLock lock(mutex_);
  told_ = false;
  Batch batch;
  batch.pieces = std::exchange(pieces_, {});
  batch.ended = state_ == State::kOver;
  batch.aborted = aborted_;
  batch.keep_alive = framing_.keep_alive;
  batch.listener = listener_;
  return batch;
}

void QueuedReply::CloseAfter() {
  concurrency::MutexLock lock(mutex_);
  framing_.keep_alive = false;
}

std::shared_ptr<ReplyListener> QueuedReply::Forget(bool complete) {
  concurrency::MutexLock lock(mutex_);
  forgotten_ = complete;
  state_ = State::kOver;
  aborted_ = true;
  pieces_.clear();
  return std::exchange(listener_, nullptr);
}

void QueuedReply::Add(Piece piece) {
  pieces_.push_back(std::move(piece));
  Tell();
}

void QueuedReply::Tell() {
  if (!std::exchange(told_, true)) mailbox_->AddConnection(connection_);
}

}  // namespace tandem::http
