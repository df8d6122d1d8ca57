#include "orchestrator/openai/completion_call.h"

#include <utility>

#include "common/base/check.h"
#include "orchestrator/openai/error.h"

namespace tandem::orchestrator {
namespace {

constexpr size_t kHoldAtOnce = size_t{64} << 10;

absl::Status OverStatus(bool complete) {
  return complete ? absl::OkStatus() : absl::CancelledError("the client went away");
}

}  // namespace

CompletionCall::CompletionCall(CompletionCallOptions options,
                               std::unique_ptr<CompletionWriter> writer,
                               std::shared_ptr<http::Reply> reply)
    : options_(std::move(options)), writer_(std::move(writer)), reply_(std::move(reply)) {}

void CompletionCall::Begin(std::shared_ptr<GenerateCall> call) {
  size_t early = 0;
  std::optional<bool> over;
  {
    concurrency::MutexLock lock(mutex_);
    early = std::exchange(early_, 0);
    over = early_over_;
    if (!over.has_value()) call_ = call;
  }
  for (size_t i = 0; i < early; ++i) call->OnWritten();
  if (over.has_value()) call->OnStreamOver(OverStatus(*over));
}

bool CompletionCall::Send(v1::GenerateReply reply) {
  TANDEM_CHECK(writer_ != nullptr);
  {
    concurrency::MutexLock lock(mutex_);
    ++unwritten_;
  }
  if (options_.stream) {
    SendStream(reply);
  } else {
    Keep(reply);
    OnWritten();
  }
  return true;
}

void CompletionCall::SendStream(const v1::GenerateReply& reply) {
  std::string events = writer_->Events(reply);
  if (!std::exchange(begun_, true)) {
    http::Response head;
    head.type = "text/event-stream; charset=utf-8";
    head.headers = {{"Cache-Control", "no-cache"},
                    {"X-Accel-Buffering", "no"},  // proxies pass each event on at once
                    {"X-Request-Id", writer_->request_id()}};
    reply_->Begin(std::move(head));
  }
  reply_->Write(std::move(events));
}

void CompletionCall::Keep(const v1::GenerateReply& reply) {
  writer_->Keep(reply);
  while (held_ < writer_->kept_bytes()) {
    absl::StatusOr<transport::ByteBudget::Hold> hold =
        options_.answers->Take(options_.client, kHoldAtOnce);
    if (!hold.ok()) {
      // A call that is not known yet is told with its next reply.
      if (const auto running = call()) {
        running->Cancel(absl::ResourceExhaustedError(
            "answers that are kept take too much memory: ask for this one as a stream"));
      }
      return;
    }
    holds_.push_back(*std::move(hold));
    held_ += kHoldAtOnce;
  }
}

void CompletionCall::Close(absl::Status status) {
  if (!status.ok()) return Respond(status);
  if (options_.stream) return reply_->End();
  http::Response whole;
  whole.headers = {{"X-Request-Id", writer_->request_id()}};
  whole.body = writer_->Whole();
  reply_->Respond(std::move(whole));
}

void CompletionCall::Abort(absl::Status status) {
  if (begun_) return reply_->Abort();
  Respond(status);
}

void CompletionCall::Respond(const absl::Status& error) {
  const ApiError shown = ToApiError(error, options_.names);
  if (!begun_) return reply_->Respond(ErrorResponse(shown));
  // The status has gone out long ago, so the error is an event, and the stream has no [DONE].
  reply_->Write(CompletionWriter::ErrorEvent(ErrorJson(shown)));
  reply_->End();
}

size_t CompletionCall::queued() const {
  concurrency::MutexLock lock(mutex_);
  return unwritten_;
}

void CompletionCall::OnWritten() {
  std::shared_ptr<GenerateCall> running;
  {
    concurrency::MutexLock lock(mutex_);
    if (unwritten_ == 0) return;  // it was the event with an error, which the call did not send
    --unwritten_;
    running = call_;
    if (running == nullptr) ++early_;
  }
  if (running != nullptr) running->OnWritten();
}

void CompletionCall::OnOver(bool complete) {
  std::shared_ptr<GenerateCall> running;
  {
    concurrency::MutexLock lock(mutex_);
    running = std::exchange(call_, nullptr);
    if (running == nullptr) early_over_ = complete;
  }
  if (running != nullptr) running->OnStreamOver(OverStatus(complete));
  --*options_.open_calls;
}

std::shared_ptr<GenerateCall> CompletionCall::call() {
  concurrency::MutexLock lock(mutex_);
  return call_;
}

}  // namespace tandem::orchestrator
