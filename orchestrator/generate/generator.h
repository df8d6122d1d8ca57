// Generates texts for any front. It checks a request, admits it (admission.h), runs it as a
// GenerateCall, and ends all requests at a drain. A front, such as the gRPC service, authenticates
// its callers, hands requests over, and carries replies away.
//
// A request is checked as a whole before it waits, so invalid input never waits. It is checked (its
// prompt is tokenised) and begun on GenerateParts::workers, because both may take long; the front's
// threads only hand over. Clients have turns there. Long work has workers of its own
// (work_turns.h), which parse long requests, too. So nobody's prompts hold up the others'. A
// request that has waited for that until its deadline, or for as long as admission may take, is
// refused. Events of its rounds run on the thread that brings them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/concurrency/executor.h"
#include "common/concurrency/instant.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/generate/admission.h"
#include "orchestrator/generate/generate_call.h"
#include "orchestrator/generate/generate_parts.h"
#include "orchestrator/generate/token_calls.h"
#include "orchestrator/generate/work_turns.h"
#include "orchestrator/request/request_observer.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::tokenizer {
class Tokenizer;
}

namespace tandem::orchestrator {

// What a front knows about a call besides the request.
struct CallContext {
  // Not OK: the front refuses the call, because the caller may not call or sent no request. The
  // call ends with it, and observers hear of it as of any other call.
  absl::Status refused;
  // What the request takes in memory; let go once it is checked.
  std::shared_ptr<const void> memory;
  std::string traceparent;  // the header as it came, not validated; may be empty
  std::string tracestate;   // the headers of this name, joined by commas; likewise
  std::string request_id;   // x-request-id, likewise
  std::string client;       // its connection, as gRPC writes it: clients have turns
  CallFront front;          // for observers
  // On GenerateParts::clock.
  concurrency::Instant deadline = concurrency::Instant::InfiniteFuture();
};

// A request that is parsed when its turn comes.
template <typename Request>
struct Unparsed {
  size_t bytes = 0;  // of the message
  // Called once at most, on any thread, and not at all for a call that is refused. `memory`: as
  // CallContext's, whose place it takes. An error is the call's status.
  absl::AnyInvocable<absl::Status(Request& request, std::shared_ptr<const void>& memory)> parse;
};

// One that is parsed already.
template <typename Request>
Unparsed<Request> Parsed(Request request) {
  Unparsed<Request> parsed;
  parsed.bytes = request.ByteSizeLong();
  parsed.parse = [request = std::move(request)](Request& to,
                                                std::shared_ptr<const void>& /*memory*/) mutable {
    to = std::move(request);
    return absl::OkStatus();
  };
  return parsed;
}

// Thread-safe.
class Generator {
 public:
  // `parts` outlive this object.
  Generator(GenerateParts parts, std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
            const AdmissionOptions& admission, std::string instance_id);
  // Call Drain before.
  ~Generator();

  // Returns at once. Replies go to `sink`, which is closed with the call's status on any thread.
  // The front tells the call about messages that left the sink and about a client that went away.
  std::shared_ptr<GenerateCall> Generate(Unparsed<v1::GenerateRequest> request, CallContext context,
                                         std::shared_ptr<GenerateCall::Sink> sink);

  // INVALID_ARGUMENT means that the request names an unknown field or asks for too many hashes.
  absl::Status Describe(const v1::DescribeRequest& request, v1::DescribeReply& reply) const;
  // INVALID_ARGUMENT: an unknown field.
  absl::Status ListModels(const v1::ListModelsRequest& request, v1::ListModelsReply& reply) const;
  // Return at once. `done` is called once, on any thread: on a worker when it is the client's turn,
  // as for the prompt of a Generate. Errors as there, and those of token_calls.h.
  void Tokenize(Unparsed<v1::TokenizeRequest> request, CallContext context,
                std::function<void(absl::StatusOr<v1::TokenizeReply>)> done);
  void Detokenize(Unparsed<v1::DetokenizeRequest> request, CallContext context,
                  std::function<void(absl::StatusOr<v1::DetokenizeReply>)> done);

  // Checks a request as Generate does, and makes ids of its prompt. Runs on this thread.
  absl::Status Resolve(v1::GenerateRequest& request) const;
  // Turns the ids that follow this prompt into text. The tokenizer outlives it.
  std::unique_ptr<Detokenizer> NewDetokenizer(absl::Span<const uint32_t> prompt) const;

  const GenerateParts& parts() const { return parts_; }

  // Refuses new requests and those that wait: they have not begun, so another orchestrator can take
  // them. Running requests go on. Returns at once.
  void Refuse();
  // Calls Refuse, gives running requests `grace`, and ends the rest with UNAVAILABLE. Returns when
  // none is left.
  void Drain(absl::Duration grace);
  bool draining() const;
  size_t active_requests() const { return admission_->active(); }
  size_t waiting_requests() const { return admission_->waiting(); }

 private:
  // Runs on the call's strand. An error is the call's status, and then nothing is left of the
  // request. After OK the call ends by itself.
  absl::Status Accept(const std::shared_ptr<GenerateCall>& call, v1::GenerateRequest request,
                      const CallContext& context);
  absl::StatusOr<GenerationRequest> Check(const v1::GenerateRequest& request,
                                          absl::string_view request_id,
                                          const v1::Welcome& target) const;
  // For a request that was checked against a target of this model.
  absl::StatusOr<v1::Started> MakeStarted(const std::string& checked_model_id,
                                          const GenerationRequest& request) const;
  absl::StatusOr<v1::Welcome> Target() const;
  TokenFacts Facts() const;
  void FillPromptFacts(PromptFacts& facts) const;

  // Runs `work` when it is the client's turn, with the context's memory, and with an error if it
  // cannot wait for that or has waited too long.
  void InTurn(CallContext context, size_t bytes,
              absl::AnyInvocable<void(absl::Status, std::shared_ptr<const void>& memory)> work);
  // Answers in the client's turn.
  template <typename Request, typename Reply>
  void Answer(Unparsed<Request> unparsed, CallContext context,
              absl::StatusOr<Reply> (*answer)(const Request& request, const TokenFacts& facts),
              std::function<void(absl::StatusOr<Reply>)> done);
  // Runs `check` when it is the client's turn.
  void PostCheck(const std::string& client, size_t bytes, concurrency::Task check);
  absl::Status CheckWait(concurrency::Instant arrived, concurrency::Instant deadline) const;
  absl::Status BeginCheck();
  void EndCheck();
  absl::Status Enter(uint64_t id, const std::shared_ptr<GenerateCall>& call);
  void Leave(uint64_t id);

  const GenerateParts parts_;
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  const size_t max_unchecked_;
  const absl::Duration patience_;  // of requests without a deadline
  const std::shared_ptr<Admission> admission_;
  const std::string instance_id_;

  mutable concurrency::Mutex mutex_;
  concurrency::CondVar left_;
  bool draining_ TANDEM_GUARDED_BY(mutex_) = false;
  uint64_t last_id_ TANDEM_GUARDED_BY(mutex_) = 0;
  size_t unchecked_ TANDEM_GUARDED_BY(mutex_) = 0;  // calls whose Accept has not ended
  // The requests that run and those that wait.
  std::map<uint64_t, std::shared_ptr<GenerateCall>> calls_ TANDEM_GUARDED_BY(mutex_);
  std::optional<WorkTurns> checks_;  // absent: there are no workers
};

}  // namespace tandem::orchestrator
