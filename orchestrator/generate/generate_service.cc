#include "orchestrator/generate/generate_service.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/messages/handshake.h"
#include "common/messages/sampling_options.h"
#include "common/messages/unknown_fields.h"
#include "common/random/system.h"
#include "common/security/caller_check.h"
#include "common/transport/grpc_status.h"
#include "common/transport/reply_stream.h"
#include "orchestrator/draft/draft_pool.h"
#include "orchestrator/verify/target_pool.h"

namespace tandem::orchestrator {
namespace {

class TokenizerDetokenizer final : public Detokenizer {
 public:
  TokenizerDetokenizer(std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                       absl::Span<const uint32_t> prompt)
      : tokenizer_(std::move(tokenizer)), incremental_(*tokenizer_, prompt) {}
  absl::StatusOr<std::string> Feed(uint32_t id) override { return incremental_.Feed(id); }
  std::string Finish() override { return incremental_.Finish(); }

 private:
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  tokenizer::IncrementalDetokenizer incremental_;
};

// Until the call's deadline; infinite when it has none.
absl::Duration TimeLeft(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  const auto now = std::chrono::system_clock::now();
  if (deadline - now > std::chrono::hours(24 * 365)) return absl::InfiniteDuration();
  return absl::FromChrono(deadline - now);
}

std::string Traceparent(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find("traceparent");
  return it == metadata.end() ? "" : std::string(it->second.data(), it->second.size());
}

}  // namespace

// What the transport sees of one call.
class GenerateService::Handler final : public transport::StreamHandler<v1::GenerateRequest> {
 public:
  Handler(GenerateService& service, absl::Status caller, std::string traceparent,
          std::shared_ptr<Sink> sink, absl::Duration deadline)
      : service_(service),
        caller_(std::move(caller)),
        traceparent_(std::move(traceparent)),
        sink_(std::move(sink)),
        deadline_(deadline) {
    ++service_.open_calls_;
  }

  void OnMessage(v1::GenerateRequest request) override {
    absl::StatusOr<std::shared_ptr<GenerateCall>> call =
        service_.Accept(request, caller_, traceparent_, sink_, deadline_);
    if (!call.ok()) return sink_->Close(call.status());
    call_ = *std::move(call);
  }
  void OnWritten(size_t /*queued*/) override {
    if (call_ != nullptr) call_->OnWritten();
  }
  void OnDone(absl::Status /*status*/) override {
    --service_.open_calls_;
    if (call_ != nullptr) call_->Cancel(absl::CancelledError("the client went away"));
  }

 private:
  GenerateService& service_;
  const absl::Status caller_;
  const std::string traceparent_;
  const std::shared_ptr<Sink> sink_;
  const absl::Duration deadline_;
  std::shared_ptr<GenerateCall> call_;  // null until the request was found good
};

GenerateService::GenerateService(GenerateParts parts,
                                 std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                                 const AdmissionOptions& admission, std::string instance_id)
    : parts_(std::move(parts)),
      tokenizer_(std::move(tokenizer)),
      admission_(std::make_shared<Admission>(admission, *parts_.timers, *parts_.clock)),
      instance_id_(std::move(instance_id)) {}

GenerateService::~GenerateService() {
  TANDEM_CHECK(active_requests() == 0 && waiting_requests() == 0);
}

grpc::ServerWriteReactor<v1::GenerateReply>* GenerateService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  const absl::Duration left = TimeLeft(*context);
  const absl::Duration deadline =
      left == absl::InfiniteDuration() ? left : parts_.clock->Now() + left;
  return transport::ServeReplies<v1::GenerateRequest, v1::GenerateReply>(
      context, *request, transport::StreamOptions{},
      [this, deadline, caller = security::CheckCaller(*context, "Generate", parts_.tokens),
       traceparent = Traceparent(*context)](std::shared_ptr<Sink> sink) {
        return std::make_unique<Handler>(*this, caller, traceparent, std::move(sink), deadline);
      });
}

absl::StatusOr<std::shared_ptr<GenerateCall>> GenerateService::Accept(
    const v1::GenerateRequest& request, const absl::Status& caller, const std::string& traceparent,
    std::shared_ptr<Sink> sink, absl::Duration deadline) {
  const absl::Duration arrived = parts_.clock->Now();
  std::unique_ptr<RequestObserver> observer = WatchAll(parts_.watchers, {arrived, traceparent});
  const auto refuse = [&](RequestObserver& watching, const GenerationRequest* checked,
                          absl::Status status) {
    watching.OnEnded(
        {arrived, parts_.clock->Now(), status, watching.trace_id(), checked, /*endings=*/{}});
    return status;
  };
  if (!caller.ok()) return refuse(*observer, nullptr, caller);
  absl::StatusOr<v1::Welcome> target = Target();
  if (!target.ok()) return refuse(*observer, nullptr, target.status());
  absl::StatusOr<GenerationRequest> valid = Check(request, *target);
  if (!valid.ok()) return refuse(*observer, nullptr, valid.status());
  valid->deadline = deadline;
  observer->OnAccepted(parts_.clock->Now(), *valid);

  const uint32_t priority = valid->priority;
  auto make_detokenizer = [tokenizer = tokenizer_](const GenerationRequest& checked) {
    return std::make_unique<TokenizerDetokenizer>(tokenizer, checked.prompt);
  };
  auto call = std::make_shared<GenerateCall>(*std::move(valid), parts_, std::move(make_detokenizer),
                                             std::move(sink), arrived, std::move(observer));
  const uint64_t id = ++last_id_;
  absl::Status entered = call->Prepare(
      [this, model_id = target->model_id()](const GenerationRequest& checked) {
        return MakeStarted(model_id, checked);
      },
      [this, id] { Leave(id); });
  if (entered.ok()) entered = Enter(id, call);
  if (!entered.ok()) return refuse(call->observer(), &call->request(), std::move(entered));
  admission_->Ask(id, priority, deadline, [call](absl::Status status, absl::Duration waited) {
    call->OnDecided(std::move(status), waited);
  });
  return call;
}

absl::StatusOr<GenerationRequest> GenerateService::Check(const v1::GenerateRequest& request,
                                                         const v1::Welcome& target) const {
  TANDEM_RETURN_IF_ERROR(messages::RefuseUnknown(request));
  ModelFacts model;
  model.context_length = target.limits().context_length();
  model.vocabulary_size = tokenizer_->vocabulary_size();
  model.eos_token_ids.assign(target.eos_token_ids().begin(), target.eos_token_ids().end());
  model.default_sampling = messages::FromWire(target.default_sampling());
  if (parts_.draft != nullptr) model.drafters = parts_.draft->drafters();
  model.encode = [this](const std::string& text) { return tokenizer_->Encode(text); };
  TANDEM_ASSIGN_OR_RETURN(GenerationRequest valid, ValidateRequest(request, model));
  valid.id = absl::StrFormat("%016x", random::FromSystem());
  if (!request.has_seed()) valid.seed = random::FromSystem();
  return valid;
}

absl::StatusOr<v1::Started> GenerateService::MakeStarted(const std::string& checked_model_id,
                                                         const GenerationRequest& request) const {
  TANDEM_ASSIGN_OR_RETURN(const v1::Welcome target, Target());
  if (target.model_id() != checked_model_id) {
    return absl::FailedPreconditionError(
        absl::StrCat("the target's model changed while the request waited: it was checked against ",
                     checked_model_id, ", now there is ", target.model_id()));
  }
  v1::Started started;
  started.set_request_id(request.id);
  started.set_seed(request.seed);
  started.set_rule(messages::ToWire(request.rule));
  started.set_exact(acceptance::IsExact(request.rule));
  started.set_target_model_id(target.model_id());
  if (parts_.draft != nullptr) started.set_draft_model_id(parts_.draft->model_id());
  started.set_prompt_tokens(request.prompt_tokens());
  started.set_numerics_id(target.numerics_id());
  *started.mutable_sampling() = messages::ToWire(request.sampling);
  return started;
}

// The target that requests are checked against. One that was there before and is just being connected
// again will do: the request waits for it.
absl::StatusOr<v1::Welcome> GenerateService::Target() const {
  absl::Status ready = parts_.verify->Ready();
  if (ready.code() == absl::StatusCode::kFailedPrecondition) return ready;
  std::optional<v1::Welcome> welcome = parts_.verify->welcome();
  if (!welcome.has_value()) return ready.ok() ? absl::UnavailableError("no target yet") : ready;
  return *std::move(welcome);
}

absl::Status GenerateService::Enter(uint64_t id, const std::shared_ptr<GenerateCall>& call) {
  concurrency::MutexLock lock(mutex_);
  if (draining_) {
    return absl::UnavailableError("the orchestrator is shutting down: ask another one");
  }
  calls_.emplace(id, call);
  return absl::OkStatus();
}

// The place goes on before the call does: a drain that finds no call finds no place taken either.
void GenerateService::Leave(uint64_t id) {
  admission_->Leave(id);
  std::shared_ptr<GenerateCall> released;  // after the lock
  concurrency::MutexLock lock(mutex_);
  auto it = calls_.find(id);
  released = std::move(it->second);
  calls_.erase(it);
  left_.NotifyAll();
  lock.Unlock();
}

void GenerateService::Refuse() {
  {
    concurrency::MutexLock lock(mutex_);
    draining_ = true;
  }
  admission_->Drain();
}

void GenerateService::Drain(absl::Duration grace) {
  const absl::Duration until = parts_.clock->Now() + grace;
  std::vector<std::shared_ptr<GenerateCall>> rest;
  Refuse();
  {
    concurrency::MutexLock lock(mutex_);
    while (!calls_.empty() && parts_.clock->Now() < until) {
      left_.WaitFor(mutex_, until - parts_.clock->Now());
    }
    for (const auto& [id, call] : calls_) rest.push_back(call);
  }
  for (const auto& call : rest) {
    call->Cancel(absl::UnavailableError(
        "the orchestrator is shutting down: resume at another one with output_prefix_ids"));
  }
  rest.clear();
  concurrency::MutexLock lock(mutex_);
  while (!calls_.empty()) left_.Wait(mutex_);
}

bool GenerateService::draining() const {
  concurrency::MutexLock lock(mutex_);
  return draining_;
}

grpc::ServerUnaryReactor* GenerateService::Describe(grpc::CallbackServerContext* context,
                                                    const v1::DescribeRequest* request,
                                                    v1::DescribeReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  // It names the peers: not for everybody either.
  absl::Status status = security::CheckCaller(*context, "Describe", parts_.tokens);
  if (status.ok()) status = FillDescription(*request, *reply);
  reactor->Finish(transport::ToGrpc(status));
  return reactor;
}

absl::Status GenerateService::FillDescription(const v1::DescribeRequest& request,
                                              v1::DescribeReply& reply) const {
  TANDEM_RETURN_IF_ERROR(messages::RefuseUnknown(request));
  if (request.token_hashes_count() > messages::kMaxTokenHashes) {
    return absl::InvalidArgumentError(absl::StrCat("token_hashes_count is ",
                                                   request.token_hashes_count(), "; at most ",
                                                   messages::kMaxTokenHashes));
  }
  v1::Welcome& welcome = *reply.mutable_welcome();
  if (std::optional<v1::Welcome> target = parts_.verify->welcome()) welcome = *std::move(target);
  welcome.set_protocol_revision(messages::kProtocolRevision);
  welcome.set_instance_id(instance_id_);
  welcome.set_tokenizer_id(tokenizer_->content_id());
  welcome.set_vocabulary_size(tokenizer_->vocabulary_size());
  for (v1::Peer& peer : parts_.verify->Peers()) *reply.add_peers() = std::move(peer);
  if (parts_.draft != nullptr) {
    for (v1::Peer& peer : parts_.draft->Peers()) *reply.add_peers() = std::move(peer);
  }
  const uint64_t end =
      std::min<uint64_t>(tokenizer_->vocabulary_size(),
                         uint64_t{request.token_hashes_from()} + request.token_hashes_count());
  for (uint64_t id = request.token_hashes_from(); id < end; ++id) {
    reply.add_token_hashes(tokenizer_->TokenHash(static_cast<uint32_t>(id)));
  }
  return absl::OkStatus();
}

}  // namespace tandem::orchestrator
