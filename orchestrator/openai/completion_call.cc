#include "orchestrator/openai/completion_call.h"

#include <utility>

#include "common/base/check.h"
#include "orchestrator/openai/error.h"

namespace tandem::orchestrator {
namespace {

constexpr size_t kHoldAtOnce = size_t{64} << 10;

absl::Status AnotherFailed() {
  return absl::CancelledError("another prompt of the request failed");
}

absl::Status OverStatus(bool complete) {
  return complete ? absl::OkStatus() : absl::CancelledError("the client went away");
}

}  // namespace

// One prompt's way into the answer. Send, Close and Abort come on its call's strand, one at a time.
class CompletionCall::PromptSink final : public GenerateCall::Sink {
 public:
  PromptSink(std::shared_ptr<CompletionCall> call, uint32_t prompt)
      : call_(std::move(call)), prompt_(prompt) {}

  bool Send(v1::GenerateReply reply) override {
    call_->Send(prompt_, reply);
    return true;
  }
  void Close(absl::Status status) override { call_->Close(prompt_, status); }
  void Abort(absl::Status status) override { call_->Abort(status); }
  size_t queued() const override { return call_->queued(prompt_); }

 private:
  const std::shared_ptr<CompletionCall> call_;
  const uint32_t prompt_;
};

CompletionCall::CompletionCall(CompletionCallOptions options,
                               std::unique_ptr<CompletionWriter> writer,
                               std::shared_ptr<http::Reply> reply)
    : options_(std::move(options)),
      reply_(std::move(reply)),
      writer_(std::move(writer)),
      calls_(options_.prompts),
      open_(options_.prompts) {}

std::shared_ptr<GenerateCall::Sink> CompletionCall::SinkOf(uint32_t prompt) {
  return std::make_shared<PromptSink>(shared_from_this(), prompt);
}

bool CompletionCall::Begin(uint32_t prompt, std::shared_ptr<GenerateCall> call) {
  size_t early = 0;
  std::optional<bool> over;
  bool answered = false;
  {
    concurrency::MutexLock lock(mutex_);
    early = std::exchange(calls_[prompt].early, 0);
    over = over_;
    answered = answered_;
    if (!over.has_value()) calls_[prompt].running = call;
  }
  for (size_t i = 0; i < early; ++i) call->OnWritten();
  if (over.has_value()) call->OnStreamOver(OverStatus(*over));
  if (answered) call->Cancel(AnotherFailed());  // one that has ended takes no notice
  return !over.has_value() && !answered;
}

void CompletionCall::Send(uint32_t prompt, const v1::GenerateReply& reply) {
  TANDEM_CHECK(writer_ != nullptr);
  absl::Status kept;
  std::shared_ptr<GenerateCall> running;
  {
    concurrency::MutexLock lock(mutex_);
    ++calls_[prompt].unwritten;
    if (answered_) return;  // with another prompt's error; OnOver will tell this call
    pieces_.push_back(prompt);
    if (options_.stream) return SendStream(prompt, reply);
    kept = Keep(prompt, reply);
    running = calls_[prompt].running;
  }
  OnWritten();
  // A call that is not known yet is told with its next reply.
  if (!kept.ok() && running != nullptr) running->Cancel(kept);
}

void CompletionCall::SendStream(uint32_t prompt, const v1::GenerateReply& reply) {
  std::string events = writer_->Events(reply, prompt);
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

absl::Status CompletionCall::Keep(uint32_t prompt, const v1::GenerateReply& reply) {
  writer_->Keep(reply, prompt);
  while (held_ < writer_->kept_bytes()) {
    absl::StatusOr<transport::ByteBudget::Hold> hold =
        options_.answers->Take(options_.client, kHoldAtOnce);
    if (!hold.ok()) {
      return absl::ResourceExhaustedError(
          "answers that are kept take too much memory: ask for this one as a stream");
    }
    holds_.push_back(*std::move(hold));
    held_ += kHoldAtOnce;
  }
  return absl::OkStatus();
}

void CompletionCall::Close(uint32_t prompt, const absl::Status& status) {
  {
    concurrency::MutexLock lock(mutex_);
    if (answered_) return;
    if (status.ok() && --open_ == 0) Finish();
    if (status.ok()) return;
    Respond(status);
  }
  CancelOthers(prompt);
}

void CompletionCall::Finish() {
  answered_ = true;
  if (options_.stream) return reply_->End();
  http::Response whole;
  whole.headers = {{"X-Request-Id", writer_->request_id()}};
  whole.body = writer_->Whole();
  reply_->Respond(std::move(whole));
}

// The client did not read what is there. The port tells all calls that it is over.
void CompletionCall::Abort(const absl::Status& status) {
  concurrency::MutexLock lock(mutex_);
  if (begun_) {
    answered_ = true;
    return reply_->Abort();
  }
  if (!answered_) Respond(status);
}

void CompletionCall::Respond(const absl::Status& error) {
  answered_ = true;
  const ApiError shown = ToApiError(error, options_.names);
  if (!begun_) return reply_->Respond(ErrorResponse(shown));
  // The status has gone out long ago, so the error is an event, and the stream has no [DONE].
  reply_->Write(CompletionWriter::ErrorEvent(ErrorJson(shown)));
  reply_->End();
}

// Of a call that has ended, this does nothing.
void CompletionCall::CancelOthers(uint32_t prompt) {
  std::vector<std::shared_ptr<GenerateCall>> others;
  {
    concurrency::MutexLock lock(mutex_);
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (i != prompt && calls_[i].running != nullptr) others.push_back(calls_[i].running);
    }
  }
  for (const auto& call : others) {
    call->Cancel(AnotherFailed());
  }
}

size_t CompletionCall::queued(uint32_t prompt) const {
  concurrency::MutexLock lock(mutex_);
  return calls_[prompt].unwritten;
}

void CompletionCall::OnWritten() {
  std::shared_ptr<GenerateCall> running;
  {
    concurrency::MutexLock lock(mutex_);
    if (pieces_.empty()) return;  // it was the event with an error, which no call sent
    Call& call = calls_[pieces_.front()];
    pieces_.pop_front();
    --call.unwritten;
    running = call.running;
    if (running == nullptr) ++call.early;
  }
  if (running != nullptr) running->OnWritten();
}

void CompletionCall::OnOver(bool complete) {
  std::vector<Call> calls;
  {
    concurrency::MutexLock lock(mutex_);
    over_ = complete;
    for (Call& call : calls_) {
      calls.push_back({std::exchange(call.running, nullptr)});
    }
  }
  for (const Call& call : calls) {
    if (call.running != nullptr) call.running->OnStreamOver(OverStatus(complete));
  }
  --*options_.open_calls;
}

}  // namespace tandem::orchestrator
