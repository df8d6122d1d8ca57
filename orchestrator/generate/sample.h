// One sample of a request: its loop, its sequences at a target and a draft, and its text. It brings
// all their events to the request's strand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/instant.h"
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

// Called on the request's strand.
class SampleOwner {
 public:
  virtual ~SampleOwner() = default;
  virtual void SendReply(uint32_t sample, v1::GenerateReply reply) = 0;
  // Sends a message besides the text. OnWritten does not follow.
  virtual void SendAside(v1::GenerateReply reply) = 0;
  // It waits for its reader, or goes on.
  virtual void OnSamplePaused(bool paused) = 0;
  // Called once, from inside the sample. So the sample must not be destroyed there.
  virtual void OnSampleEnded(uint32_t sample) = 0;
};

// Used on the request's strand only.
class Sample final : private DeltaSink {
 public:
  // The `index`-th sample of its request. `parts`, `observer`, `unread` and `owner` outlive this
  // object. `arrived` is the request's arrival. The owner adds to `unread` what it sends.
  Sample(uint32_t index, SampleRequest request, const GenerateParts& parts,
         std::unique_ptr<Detokenizer> detokenizer, concurrency::Instant arrived,
         RequestObserver& observer, UnreadCall& unread, SampleOwner& owner);
  ~Sample() override;

  // Call before Start. INVALID_ARGUMENT means that the output prefix ends the text.
  absl::Status Resume();

  // Runs a task on the strand, from any thread. Does nothing once the request has ended.
  using Post = std::function<void(std::function<void()>)>;
  void Start(SessionNeeds needs, Post post);

  // Its text waits for that of another sample: it is kept until ReleaseText, which sends it. Call
  // HoldText before Start.
  void HoldText() { stream_.HoldBack(); }
  void ReleaseText() { stream_.Release(); }
  void OnReleased();  // call after ReleaseText, and not from inside another sample

  void OnWritten();                  // the oldest message given to the owner was written
  void OnDrained();                  // one of the call's messages was, whose ever it is
  void Cancel(absl::Status status);  // ends it with this status, if it is running

  // Absent until the sample has ended.
  const std::optional<Ending>& ending() const { return ending_; }

 private:
  class Events;
  class RoundSender;

  void Send(TextDelta delta) override;
  void SendPrompt(PromptLogprobs prompt) override;

  const uint32_t index_;
  const SampleRequest request_;
  const GenerateParts& parts_;
  const concurrency::Instant arrived_;
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
