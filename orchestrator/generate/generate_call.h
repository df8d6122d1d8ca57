// One request from its first message to its last: a strand, the loop on it, and the adapters that bring
// every event there. Knows messages, but no gRPC.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/executor.h"
#include "common/rpc/stream.h"
#include "orchestrator/draft/draft_pool.h"
#include "orchestrator/generate/request.h"
#include "orchestrator/generate/round_observer.h"
#include "orchestrator/generate/speculation_loop.h"
#include "orchestrator/generate/strand_timers.h"
#include "orchestrator/options.h"
#include "orchestrator/stream/token_stream.h"
#include "orchestrator/verify/target_pool.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

// What all requests share; outlives them.
struct GenerateParts {
  LoopOptions loop;
  TargetPool* verify = nullptr;
  DraftPool* draft = nullptr;  // null: none is configured
  concurrency::Timers* timers = nullptr;
  const concurrency::Clock* clock = nullptr;
  const concurrency::Clock* work_clock = nullptr;  // as in LoopParts
  RoundObserver* observer = nullptr;
  DecideFunction decide;
};

// Thread-safe. Prepare, then OnDecided once, and any events; `done` is called once, on any thread, when
// nothing is left of the request but messages in the sink. Until then the owner keeps the shared_ptr.
//
// Started is sent when the request is admitted, not when it is found good: it names the models as they are
// when the work begins.
class GenerateCall final : public std::enable_shared_from_this<GenerateCall>, private DeltaSink {
 public:
  using Sink = rpc::Sink<v1::GenerateReply>;

  GenerateCall(GenerationRequest request, const GenerateParts& parts,
               std::unique_ptr<Detokenizer> detokenizer, std::shared_ptr<Sink> sink,
               absl::Duration arrived);
  ~GenerateCall() override;

  // What is said when the request begins, or why it cannot begin after all.
  using MakeStarted = std::function<absl::StatusOr<v1::Started>(const GenerationRequest& request)>;

  // INVALID_ARGUMENT, and neither function will be called, when the output prefix ends the text.
  // `make_started` is called at most once, before `done`.
  absl::Status Prepare(MakeStarted make_started, std::function<void()> done);

  // The wait to be admitted is over (Admission::Decided): begins, or ends the request with `status`. Does
  // nothing for a request that was cancelled meanwhile.
  void OnDecided(absl::Status status, absl::Duration waited);

  void OnWritten();                  // a message of ours left the sink
  void Cancel(absl::Status status);  // ends the request with it

 private:
  class Events;

  void Send(TextDelta delta) override;
  void Start(v1::Started started);
  void EndUnbegun(absl::Status status);
  void OnEnded(Ending ending);
  void Release();
  void OnStrand(std::function<void(SpeculationLoop&)> call);

  const GenerationRequest request_;
  const GenerateParts& parts_;
  const std::shared_ptr<Sink> sink_;
  const absl::Duration arrived_;

  concurrency::SerialExecutor strand_;
  // All below is touched on the strand only, once Prepare is over.
  MakeStarted make_started_;
  std::function<void()> done_;
  absl::Duration waited_;  // to be admitted
  TokenStream stream_;
  bool started_written_ = false;  // the first message is not a delta
  bool ended_ = false;
  std::shared_ptr<Events> events_;
  std::unique_ptr<StrandTimers> timers_;
  std::unique_ptr<DraftSession> draft_;
  std::unique_ptr<VerifySession> verify_;
  std::unique_ptr<SpeculationLoop> loop_;
};

// The last message of a request that ended well.
v1::Last MakeLast(const GenerationRequest& request, const Ending& ending);

}  // namespace tandem::orchestrator
