// One of a request's texts: its loop, its sequences at a target and at a draft, its text. Brings every event
// of theirs to the request's strand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "orchestrator/generate/generate_parts.h"
#include "orchestrator/request/ending.h"
#include "orchestrator/request/request.h"
#include "orchestrator/request/request_observer.h"
#include "orchestrator/stream/token_stream.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

class DraftSession;
class SpeculationLoop;
class StrandTimers;
class VerifySession;
struct SessionNeeds;

// Called on the strand.
class SampleOwner {
 public:
  virtual ~SampleOwner() = default;
  virtual void SendReply(uint32_t sample, v1::GenerateReply reply) = 0;
  // Beside the text: nothing is held back for it, and no OnWritten comes.
  virtual void SendAside(v1::GenerateReply reply) = 0;
  // Once, from inside the sample, which therefore is not destroyed there.
  virtual void OnSampleEnded(uint32_t sample) = 0;
};

// Used on the request's strand only.
class Sample final : private DeltaSink {
 public:
  // The `index`-th of the request's samples; `request` is its own. `parts`, `observer`, `owner` outlive this. `arrived`: of the request.
  Sample(uint32_t index, SampleRequest request, const GenerateParts& parts,
         std::unique_ptr<Detokenizer> detokenizer, absl::Duration arrived,
         RequestObserver& observer, SampleOwner& owner);
  ~Sample() override;

  // Before Start: INVALID_ARGUMENT when the output prefix ends the text.
  absl::Status Resume();

  // Runs a task on the strand, from any thread; does nothing once the request has ended.
  using Post = std::function<void(std::function<void()>)>;
  void Start(SessionNeeds needs, Post post);

  void OnWritten();                  // the oldest message that the owner was given was written
  void Cancel(absl::Status status);  // ends it with this status, if it has begun and not ended

  // When it has ended.
  const std::optional<Ending>& ending() const { return ending_; }

 private:
  class Events;
  class RoundSender;

  void Send(TextDelta delta) override;
  void SendPrompt(PromptLogprobs prompt) override;

  const uint32_t index_;
  const SampleRequest request_;
  const GenerateParts& parts_;
  const absl::Duration arrived_;
  RequestObserver& request_observer_;
  SampleOwner& owner_;

  TokenStream stream_;
  std::shared_ptr<Events> events_;
  std::unique_ptr<StrandTimers> timers_;
  std::unique_ptr<RoundObserver> observer_;
  std::unique_ptr<DraftSession> draft_;
  std::unique_ptr<VerifySession> verify_;
  std::unique_ptr<SpeculationLoop> loop_;
  std::optional<Ending> ending_;
};

}  // namespace tandem::orchestrator
