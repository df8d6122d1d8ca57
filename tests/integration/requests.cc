#include "tests/integration/requests.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "common/concurrency/mutex.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace tandem::testing {
namespace {

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// Keeps `at_once` calls running until all are done.
class Sender {
 public:
  Sender(const std::shared_ptr<grpc::Channel>& channel,
         absl::Span<const v1::GenerateRequest> requests)
      : stub_(v1::Generation::NewStub(channel)), requests_(requests), replies_(requests.size()) {}

  std::vector<Reply> Run(int at_once) {
    for (int i = 0; i < at_once; ++i) Next();
    concurrency::MutexLock lock(mutex_);
    while (done_ < requests_.size()) changed_.Wait(mutex_);
    return std::move(replies_);
  }

 private:
  // Owns itself until the call is over.
  class Call final : public grpc::ClientReadReactor<v1::GenerateReply> {
   public:
    Call(Sender& sender, size_t index) : sender_(sender), index_(index) {
      sender.stub_->async()->Generate(&context_, &sender.requests_[index], this);
      StartRead(&message_);
      StartCall();
    }

    void OnReadDone(bool ok) override {
      if (!ok) return;
      TakeReply(std::move(message_), reply_);
      message_.Clear();
      StartRead(&message_);
    }

    void OnDone(const grpc::Status& status) override {
      if (reply_.status.ok()) reply_.status = ToAbsl(status);
      sender_.Done(index_, std::move(reply_));
      delete this;
    }

   private:
    Sender& sender_;
    const size_t index_;
    grpc::ClientContext context_;
    v1::GenerateReply message_;
    Reply reply_;
  };

  void Next() {
    size_t index = 0;
    {
      concurrency::MutexLock lock(mutex_);
      if (next_ == requests_.size()) return;
      index = next_++;
    }
    new Call(*this, index);
  }

  void Done(size_t index, Reply reply) {
    {
      concurrency::MutexLock lock(mutex_);
      replies_[index] = std::move(reply);
    }
    Next();
    concurrency::MutexLock lock(mutex_);
    ++done_;
    changed_.NotifyAll();  // under the lock: Run may destroy this once it has it
  }

  const std::unique_ptr<v1::Generation::Stub> stub_;
  const absl::Span<const v1::GenerateRequest> requests_;
  concurrency::Mutex mutex_;
  concurrency::CondVar changed_;
  std::vector<Reply> replies_;
  size_t next_ = 0;
  size_t done_ = 0;
};

void TakeDelta(const v1::Delta& delta, Reply& reply) {
  if (reply.samples.size() <= delta.sample_index()) reply.samples.resize(delta.sample_index() + 1);
  SampleReply& sample = reply.samples[delta.sample_index()];
  sample.text += delta.text();
  sample.ids.insert(sample.ids.end(), delta.token_ids().begin(), delta.token_ids().end());
  sample.logprobs.insert(sample.logprobs.end(), delta.logprobs().begin(), delta.logprobs().end());
  sample.top_logprobs.insert(sample.top_logprobs.end(), delta.top_logprobs().begin(),
                             delta.top_logprobs().end());
  const auto fits = [&sample](size_t size) { return size == 0 || size == sample.ids.size(); };
  if (!fits(sample.logprobs.size()) || !fits(sample.top_logprobs.size())) {
    reply.status = absl::InternalError("log probabilities that are not one an id");
  }
  if (delta.sample_index() > 0) return;
  reply.text += delta.text();
  reply.ids.insert(reply.ids.end(), delta.token_ids().begin(), delta.token_ids().end());
}

void TakePrompt(const v1::PromptLogprobs& message, Reply& reply) {
  PromptReply& prompt = reply.prompt;
  const bool late = !reply.samples.empty();
  if (late || message.first_position() != prompt.ids.size() + 1 ||
      message.logprobs_size() != message.token_ids_size()) {
    reply.status = absl::InternalError("prompt log probabilities that are out of place");
  }
  prompt.ids.insert(prompt.ids.end(), message.token_ids().begin(), message.token_ids().end());
  prompt.logprobs.insert(prompt.logprobs.end(), message.logprobs().begin(),
                         message.logprobs().end());
  prompt.top.insert(prompt.top.end(), message.top().begin(), message.top().end());
}

}  // namespace

void TakeReply(v1::GenerateReply message, Reply& reply) {
  switch (message.kind_case()) {
    case v1::GenerateReply::kStarted:
      reply.started = std::move(*message.mutable_started());
      break;
    case v1::GenerateReply::kDelta:
      TakeDelta(message.delta(), reply);
      break;
    case v1::GenerateReply::kLast:
      reply.last = std::move(*message.mutable_last());
      break;
    case v1::GenerateReply::kPromptLogprobs:
      TakePrompt(message.prompt_logprobs(), reply);
      break;
    case v1::GenerateReply::kRound:
      reply.rounds.push_back(std::move(*message.mutable_round()));
      break;
    case v1::GenerateReply::KIND_NOT_SET:
      reply.status = absl::InternalError("a reply of no kind");
  }
}

uint32_t Reply::Rounds(const std::string& cause) const {
  for (const v1::CausedRounds& caused : record().rounds_without_draft()) {
    if (caused.cause() == cause) return caused.rounds();
  }
  return 0;
}

Reply Send(const std::shared_ptr<grpc::Channel>& channel, const v1::GenerateRequest& request,
           const std::function<void(const Reply&)>& on_delta) {
  auto stub = v1::Generation::NewStub(channel);
  grpc::ClientContext context;
  auto reader = stub->Generate(&context, request);
  Reply reply;
  v1::GenerateReply message;
  while (reader->Read(&message)) {
    const bool is_delta = message.has_delta();
    TakeReply(std::move(message), reply);
    message.Clear();
    if (is_delta && on_delta) on_delta(reply);
  }
  absl::Status status = ToAbsl(reader->Finish());
  if (reply.status.ok()) reply.status = std::move(status);
  return reply;
}

std::vector<Reply> SendAll(const std::shared_ptr<grpc::Channel>& channel,
                           absl::Span<const v1::GenerateRequest> requests, int at_once) {
  return Sender(channel, requests).Run(at_once);
}

v1::GenerateRequest GreedyRequest(absl::Span<const uint32_t> prompt, uint32_t max_tokens,
                                  uint32_t draft_tokens, const std::string& drafter) {
  v1::GenerateRequest request;
  request.mutable_ids()->mutable_ids()->Add(prompt.begin(), prompt.end());
  request.set_max_tokens(max_tokens);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_speculation()->set_fixed(draft_tokens);
  request.mutable_speculation()->set_drafter(drafter);
  return request;
}

}  // namespace tandem::testing
