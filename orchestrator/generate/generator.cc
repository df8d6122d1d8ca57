#include "orchestrator/generate/generator.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/messages/handshake.h"
#include "common/messages/sampling_options.h"
#include "common/messages/unknown_fields.h"
#include "common/random/system.h"
#include "common/tokenizer/detokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "orchestrator/draft/draft_pool.h"
#include "orchestrator/generate/encode_conversation.h"
#include "orchestrator/generate/request_names.h"
#include "orchestrator/generate/request_validation.h"
#include "orchestrator/request/internal_reason.h"
#include "orchestrator/verify/target_pool.h"

namespace tandem::orchestrator {
namespace {

class TokenizerDetokenizer final : public Detokenizer {
 public:
  TokenizerDetokenizer(std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                       absl::Span<const uint32_t> prompt)
      : tokenizer_(std::move(tokenizer)), incremental_(*tokenizer_, prompt) {}
  // An id below the vocabulary size need not have a text: a tokenizer may have holes, whose rows
  // the model has all the same. Such an id has its probability, and may be drawn. It stays in the
  // ids and adds no text, as in transformers (the tokenizers crate skips it when it decodes) and in
  // vLLM (it takes the empty string). A p of 0 would change the model's distribution.
  absl::StatusOr<std::string> Feed(uint32_t id) override {
    if (!tokenizer_->IsToken(id)) return std::string();
    return incremental_.Feed(id);
  }
  std::string Finish() override { return incremental_.Finish(); }

 private:
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  tokenizer::IncrementalDetokenizer incremental_;
};

GenerateParts WithTokenBytes(GenerateParts parts,
                             std::shared_ptr<const tokenizer::Tokenizer> tokenizer) {
  parts.token_bytes = [tokenizer = std::move(tokenizer)](uint32_t id) {
    return std::string(tokenizer->TokenBytes(id));
  };
  return parts;
}

absl::Status ShuttingDown() {
  return absl::UnavailableError("the orchestrator is shutting down: ask another one");
}

}  // namespace

Generator::Generator(GenerateParts parts, std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                     const AdmissionOptions& admission, std::string instance_id)
    : parts_(WithTokenBytes(std::move(parts), tokenizer)),
      tokenizer_(std::move(tokenizer)),
      max_unchecked_(size_t{admission.max_active} + admission.max_waiting),
      patience_(admission.patience),
      admission_(std::make_shared<Admission>(admission, *parts_.timers, *parts_.clock)),
      instance_id_(std::move(instance_id)) {
  if (parts_.workers == nullptr) return;
  checks_.emplace(*parts_.clock, *parts_.workers, parts_.worker_threads, parts_.long_prompt_workers,
                  parts_.long_prompt_threads);
}

Generator::~Generator() { TANDEM_CHECK(active_requests() == 0 && waiting_requests() == 0); }

std::shared_ptr<GenerateCall> Generator::Generate(Unparsed<v1::GenerateRequest> unparsed,
                                                  CallContext context,
                                                  std::shared_ptr<GenerateCall::Sink> sink) {
  const concurrency::Instant arrived = parts_.clock->Now();
  auto call = std::make_shared<GenerateCall>(
      parts_, [this](const GenerationRequest& checked) { return NewDetokenizer(checked.prompt); },
      std::move(sink), arrived,
      WatchAll(parts_.watchers,
               {arrived, context.traceparent,
                IsRequestId(context.request_id) ? context.request_id : std::string(), context.front,
                context.tracestate}));
  absl::Status status = context.refused;
  if (status.ok() && parts_.unread != nullptr) status = parts_.unread->Admit();
  if (status.ok()) status = BeginCheck();
  if (!status.ok()) {
    call->Cancel(std::move(status));
    return call;
  }
  // Also where the call was cancelled before its turn came. The last that is done with this object.
  absl::Cleanup end_check = [this] { EndCheck(); };
  const std::string client = context.client;
  const size_t bytes = unparsed.bytes;
  PostCheck(
      client, bytes,
      [this, call, arrived, parse = std::move(unparsed.parse), context = std::move(context),
       end_check = std::move(end_check)]() mutable {
        call->Post([this, call, arrived, parse = std::move(parse), context = std::move(context),
                    end_check = std::move(end_check)]() mutable {
          absl::Status accepted = CheckWait(arrived, context.deadline);
          v1::GenerateRequest request;
          if (accepted.ok()) accepted = parse(request, context.memory);
          if (accepted.ok()) accepted = Accept(call, std::move(request), context);
          if (!accepted.ok()) call->Refuse(std::move(accepted));
        });
      });
  return call;
}

void Generator::InTurn(
    CallContext context, size_t bytes,
    absl::AnyInvocable<void(absl::Status, std::shared_ptr<const void>& memory)> work) {
  absl::Status status = context.refused;
  if (status.ok()) status = BeginCheck();
  if (!status.ok()) return work(std::move(status), context.memory);
  absl::Cleanup end_check = [this] { EndCheck(); };
  const std::string client = context.client;
  PostCheck(client, bytes,
            [this, arrived = parts_.clock->Now(), context = std::move(context),
             work = std::move(work), end_check = std::move(end_check)]() mutable {
              work(CheckWait(arrived, context.deadline), context.memory);
              work = nullptr;  // before the check has ended
            });
}

void Generator::PostCheck(const std::string& client, size_t bytes, concurrency::Task check) {
  if (!checks_.has_value()) return check();
  checks_->Post(client, bytes, std::move(check));
}

absl::Status Generator::CheckWait(concurrency::Instant arrived,
                                  concurrency::Instant deadline) const {
  const concurrency::Instant now = parts_.clock->Now();
  const std::string waited =
      absl::StrCat("the request waited ", absl::FormatDuration(now - arrived), " to be checked");
  if (now >= deadline) return absl::DeadlineExceededError(waited);
  if (now - arrived <= patience_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(waited, ": try again later"));
}

absl::Status Generator::Accept(const std::shared_ptr<GenerateCall>& call,
                               v1::GenerateRequest request, const CallContext& context) {
  TANDEM_ASSIGN_OR_RETURN(const v1::Welcome target, Target());
  TANDEM_ASSIGN_OR_RETURN(GenerationRequest valid, Check(request, context.request_id, target));
  valid.deadline = context.deadline;
  valid.client = context.client;
  valid.is_chat = request.has_conversation();
  const uint32_t priority = valid.priority;
  uint64_t id = 0;
  {
    concurrency::MutexLock lock(mutex_);
    id = ++last_id_;
  }
  TANDEM_RETURN_IF_ERROR(call->Prepare(
      std::move(valid),
      [this, model_id = target.model_id()](const GenerationRequest& checked) {
        return MakeStarted(model_id, checked);
      },
      [this, id](bool paused) { paused ? admission_->Pause(id) : admission_->Resume(id); },
      [this, id] { Leave(id); }));
  TANDEM_RETURN_IF_ERROR(Enter(id, call));
  admission_->Ask(id, priority, context.client, context.deadline,
                  [call](absl::Status status, absl::Duration waited) {
                    call->OnDecided(std::move(status), waited);
                  });
  return absl::OkStatus();
}

absl::Status Generator::Resolve(v1::GenerateRequest& request) const {
  TANDEM_ASSIGN_OR_RETURN(const v1::Welcome target, Target());
  TANDEM_ASSIGN_OR_RETURN(const GenerationRequest valid, Check(request, "", target));
  if (request.has_ids()) return absl::OkStatus();
  request.mutable_ids()->mutable_ids()->Add(valid.prompt.begin(), valid.prompt.end());
  return absl::OkStatus();
}

std::unique_ptr<Detokenizer> Generator::NewDetokenizer(absl::Span<const uint32_t> prompt) const {
  return std::make_unique<TokenizerDetokenizer>(tokenizer_, prompt);
}

absl::StatusOr<GenerationRequest> Generator::Check(const v1::GenerateRequest& request,
                                                   absl::string_view request_id,
                                                   const v1::Welcome& target) const {
  std::vector<std::string> ignored;
  TANDEM_RETURN_IF_ERROR(messages::RefuseUnknownOfClient(request, ignored));
  ModelFacts model;
  model.context_length = target.limits().context_length();
  model.max_length = parts_.verify->max_length(target.model_id());
  model.default_max_tokens = parts_.default_max_tokens;
  model.length_mode = parts_.length_mode;
  model.prepare = parts_.prepare;
  model.default_drafters = parts_.default_drafters;
  // Either may be the smaller one: a model is padded beyond its tokenizer, or a tokenizer has
  // tokens that the model's embedding does not have.
  model.vocabulary_size = std::min(tokenizer_->vocabulary_size(), target.vocabulary_size());
  model.eos_token_ids.assign(target.eos_token_ids().begin(), target.eos_token_ids().end());
  // The chat template was written for the tokenizer's own, which the model's files may not name.
  const absl::Span<const uint32_t> eos = tokenizer_->eos_token_ids();
  model.eos_token_ids.insert(model.eos_token_ids.end(), eos.begin(), eos.end());
  model.default_sampling = messages::FromWire(target.default_sampling());
  for (acceptance::Rule rule : acceptance::kRules) {
    const auto& served = target.rules();
    if (std::find(served.begin(), served.end(), messages::ToWire(rule)) != served.end()) {
      model.rules.push_back(rule);
    }
  }
  model.max_nodes = target.limits().max_nodes();
  if (parts_.draft != nullptr) {
    model.drafters = parts_.draft->drafters();
    model.tree_drafters = parts_.draft->tree_drafters();
    model.sampling_drafters = parts_.draft->sampling_drafters();
  }
  FillPromptFacts(model);
  TANDEM_ASSIGN_OR_RETURN(GenerationRequest valid, ValidateRequest(request, model));
  TANDEM_RETURN_IF_ERROR(FillNames(request, request_id, valid));
  if (valid.id.empty()) valid.id = absl::StrFormat("%016x", random::FromSystem());
  valid.retry_seed = random::FromSystem();
  valid.ignored = std::move(ignored);
  if (!request.has_seed()) valid.seed = random::FromSystem();
  return valid;
}

void Generator::FillPromptFacts(PromptFacts& facts) const {
  facts.max_token_bytes = tokenizer_->max_token_bytes();
  facts.encode = [this](const std::string& text, const TextOptions& options) {
    return tokenizer_->Encode(text, options.add_special_tokens, options.parse_special_tokens);
  };
  if (parts_.chat_template == nullptr) return;
  facts.encode_conversation = [this](const v1::Conversation& conversation) {
    return EncodeConversation(*parts_.chat_template, conversation);
  };
}

absl::StatusOr<v1::Started> Generator::MakeStarted(const std::string& checked_model_id,
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
  started.set_max_tokens(request.max_tokens);
  started.set_numerics_id(target.numerics_id());
  *started.mutable_sampling() = messages::ToWire(request.sampling);
  return started;
}

// The target that requests are checked against. A target that was connected before and is being
// reconnected serves, because the request waits for it.
absl::StatusOr<v1::Welcome> Generator::Target() const {
  absl::Status ready = parts_.verify->Ready();
  if (ready.code() == absl::StatusCode::kFailedPrecondition) return NoTargetReady(ready);
  std::optional<v1::Welcome> welcome = parts_.verify->welcome();
  if (!welcome.has_value())
    return ready.ok() ? absl::UnavailableError("no target yet") : NoTargetReady(ready);
  return *std::move(welcome);
}

absl::Status Generator::BeginCheck() {
  concurrency::MutexLock lock(mutex_);
  if (draining_) return ShuttingDown();
  if (unchecked_ >= max_unchecked_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        unchecked_, " requests wait to be checked, which is the most: try again later"));
  }
  ++unchecked_;
  return absl::OkStatus();
}

// The lock is held while notifying. Once it is free, Drain may return and this object may end.
void Generator::EndCheck() {
  concurrency::MutexLock lock(mutex_);
  --unchecked_;
  left_.NotifyAll();
}

absl::Status Generator::Enter(uint64_t id, const std::shared_ptr<GenerateCall>& call) {
  concurrency::MutexLock lock(mutex_);
  if (draining_) return ShuttingDown();
  calls_.emplace(id, call);
  return absl::OkStatus();
}

// The place is given back before the call is forgotten, so a drain that finds no call finds no
// place taken.
void Generator::Leave(uint64_t id) {
  admission_->Leave(id);
  std::shared_ptr<GenerateCall> released;  // after the lock
  concurrency::MutexLock lock(mutex_);
  auto it = calls_.find(id);
  released = std::move(it->second);
  calls_.erase(it);
  left_.NotifyAll();
  lock.Unlock();
}

void Generator::Refuse() {
  {
    concurrency::MutexLock lock(mutex_);
    draining_ = true;
  }
  admission_->Drain();
}

void Generator::Drain(absl::Duration grace) {
  const concurrency::Instant until = parts_.clock->Now() + grace;
  std::vector<std::shared_ptr<GenerateCall>> rest;
  Refuse();
  {
    concurrency::MutexLock lock(mutex_);
    while (unchecked_ > 0) left_.Wait(mutex_);  // each of them ends by itself, and soon
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

bool Generator::draining() const {
  concurrency::MutexLock lock(mutex_);
  return draining_;
}

}  // namespace tandem::orchestrator
