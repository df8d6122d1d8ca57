#include "orchestrator/generate/sample.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/messages/logprobs.h"
#include "orchestrator/draft/draft_pool.h"
#include "orchestrator/draft/draft_session.h"
#include "orchestrator/generate/last_message.h"
#include "orchestrator/generate/token_bytes.h"
#include "orchestrator/loop/speculation_loop.h"
#include "orchestrator/loop/strand_timers.h"
#include "orchestrator/verify/target_pool.h"
#include "orchestrator/verify/verify_session.h"

namespace tandem::orchestrator {

// The clients call this on their threads. `post` holds the request weakly, so a late event finds
// nobody.
class Sample::Events final : public DraftEvents, public VerifyEvents {
 public:
  Events(Sample* sample, Post post) : sample_(sample), post_(std::move(post)) {}

  void OnDraftOpened(base::DraftAttempt attempt, DraftLimits limits) override {
    OnStrand([=](SpeculationLoop& loop) { loop.OnDraftOpened(attempt, limits); });
  }
  void OnBlock(base::DraftAttempt attempt, DraftReplyBlock block) override {
    OnStrand([attempt, block = std::move(block)](SpeculationLoop& loop) mutable {
      loop.OnBlock(attempt, std::move(block));
    });
  }
  void OnPrepared(base::DraftAttempt attempt, std::vector<PreparedBlock> prepared) override {
    OnStrand([attempt, prepared = std::move(prepared)](SpeculationLoop& loop) mutable {
      loop.OnPrepared(attempt, std::move(prepared));
    });
  }
  void OnDraftLost(base::DraftAttempt attempt, DraftLoss loss, std::string reason) override {
    OnStrand([=](SpeculationLoop& loop) { loop.OnDraftLost(attempt, loss, reason); });
  }
  void OnVerifyReady() override {
    OnStrand([](SpeculationLoop& loop) { loop.OnVerifyReady(); });
  }
  void OnSlotWanted() override {
    OnStrand([](SpeculationLoop& loop) { loop.OnSlotWanted(); });
  }
  void OnVerifyLost(base::Incarnation incarnation, std::string reason) override {
    OnStrand([=](SpeculationLoop& loop) { loop.OnVerifyLost(incarnation, reason); });
  }
  void OnVerdict(base::Incarnation incarnation, VerifyReply reply) override {
    OnStrand([incarnation, reply = std::move(reply)](SpeculationLoop& loop) mutable {
      loop.OnVerdict(incarnation, std::move(reply));
    });
  }

 private:
  // The sample lives for as long as its request has not ended.
  template <typename Call>
  void OnStrand(Call call) {
    post_([sample = sample_, call = std::move(call)]() mutable { call(*sample->loop_); });
  }
  Sample* const sample_;
  const Post post_;
};

// The rounds, for a client that asked to see them.
class Sample::RoundSender final : public RoundObserver {
 public:
  explicit RoundSender(Sample& sample) : sample_(sample) {}

  void OnDecided(const RoundRecord& round) override {
    v1::GenerateReply reply;
    *reply.mutable_round() = ToWire(round, sample_.index_, sample_.arrived_);
    sample_.owner_.SendAside(std::move(reply));
  }

 private:
  Sample& sample_;
};

Sample::Sample(uint32_t index, SampleRequest request, const GenerateParts& parts,
               std::unique_ptr<Detokenizer> detokenizer, concurrency::Instant arrived,
               RequestObserver& observer, UnreadCall& unread, SampleOwner& owner)
    : index_(index),
      request_(std::move(request)),
      parts_(parts),
      arrived_(arrived),
      request_observer_(observer),
      owner_(owner),
      stream_(*request_, std::move(detokenizer), *this, parts.loop.max_undelivered_tokens, unread) {
}

Sample::~Sample() = default;

absl::Status Sample::Resume() { return stream_.Resume(request_->output_prefix); }

void Sample::Start(SessionNeeds needs, Post post) {
  TANDEM_CHECK(loop_ == nullptr);
  events_ = std::make_shared<Events>(this, post);
  timers_ = std::make_unique<StrandTimers>(*parts_.timers, *parts_.clock, std::move(post),
                                           [this](LoopTimer timer) { loop_->OnTimer(timer); });
  std::vector<std::unique_ptr<RoundObserver>> observers;
  observers.push_back(request_observer_.WatchSample(index_));
  if (request_->round_records) observers.push_back(std::make_unique<RoundSender>(*this));
  observer_ = JoinObservers(std::move(observers));
  if (parts_.draft != nullptr) draft_ = parts_.draft->NewSession(events_);
  verify_ = parts_.verify->NewSession(events_, std::move(needs));
  LoopParts parts{draft_.get(), verify_.get(),   &stream_,     timers_.get(),
                  parts_.clock, observer_.get(), parts_.decide};
  parts.cpu_clock = parts_.cpu_clock;
  parts.lengths = parts_.lengths;
  parts.drafters = parts_.drafters;
  parts.on_paused = [this](bool paused) { owner_.OnSamplePaused(paused); };
  loop_ = std::make_unique<SpeculationLoop>(request_, parts_.loop, std::move(parts), arrived_,
                                            [this](Ending ending) {
                                              ending_ = std::move(ending);
                                              owner_.OnSampleEnded(index_);
                                            });
  loop_->Start();
}

void Sample::OnReleased() {
  if (loop_ != nullptr) loop_->OnReleased();
}

void Sample::OnWritten() { stream_.OnWritten(); }

void Sample::OnDrained() {
  if (loop_ != nullptr) loop_->OnDrained();
}

void Sample::Cancel(absl::Status status) {
  if (loop_ != nullptr) loop_->OnCancel(std::move(status));
}

void Sample::Send(TextDelta delta) {
  v1::GenerateReply reply;
  v1::Delta& wire = *reply.mutable_delta();
  wire.set_sample_index(index_);
  wire.set_text(std::move(delta.text));
  wire.mutable_token_ids()->Add(delta.ids.begin(), delta.ids.end());
  const bool with_top = request_->logprobs.has_value() && request_->logprobs->top > 0;
  for (const TokenLogprobs& token : delta.logprobs) {
    wire.add_logprobs(token.logprob);
    if (with_top) *wire.add_top_logprobs() = messages::ToWire(token.top);
  }
  if (request_->token_bytes) AddTokenBytes(parts_.token_bytes, wire);
  for (const TextRun& run : delta.runs) {
    v1::TextRun& of_wire = *wire.add_text_runs();
    of_wire.set_bytes(run.bytes);
    of_wire.set_accepted(run.accepted);
  }
  owner_.SendReply(index_, std::move(reply));
}

void Sample::SendPrompt(PromptLogprobs prompt) {
  v1::GenerateReply reply;
  v1::PromptLogprobs& wire = *reply.mutable_prompt_logprobs();
  wire.set_first_position(prompt.first_position);
  wire.mutable_token_ids()->Add(prompt.ids.begin(), prompt.ids.end());
  for (const TokenLogprobs& token : prompt.logprobs) {
    wire.add_logprobs(token.logprob);
    if (request_->logprobs->top > 0) *wire.add_top() = messages::ToWire(token.top);
  }
  if (request_->token_bytes) AddTokenBytes(parts_.token_bytes, wire);
  owner_.SendReply(index_, std::move(reply));
}

}  // namespace tandem::orchestrator
