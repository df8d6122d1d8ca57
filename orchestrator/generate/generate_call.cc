#include "orchestrator/generate/generate_call.h"

#include <utility>

#include "common/config/status_macros.h"
#include "common/rpc/sampling_options.h"

namespace tandem::orchestrator {

// What the clients call, from their threads. Holds the call weakly: a late event finds nobody.
class GenerateCall::Events final : public DraftEvents, public VerifyEvents {
 public:
  explicit Events(std::weak_ptr<GenerateCall> call) : call_(std::move(call)) {}

  void OnDraftOpened(uint64_t attempt, DraftLimits limits) override {
    Post([=](SpeculationLoop& loop) { loop.OnDraftOpened(attempt, limits); });
  }
  void OnBlock(uint64_t attempt, DraftReplyBlock block) override {
    Post([attempt, block = std::move(block)](SpeculationLoop& loop) mutable {
      loop.OnBlock(attempt, std::move(block));
    });
  }
  void OnDraftLost(uint64_t attempt, DraftLoss loss, std::string reason) override {
    Post([=](SpeculationLoop& loop) { loop.OnDraftLost(attempt, loss, reason); });
  }
  void OnVerifyReady() override {
    Post([](SpeculationLoop& loop) { loop.OnVerifyReady(); });
  }
  void OnVerifyLost(uint64_t incarnation, std::string reason) override {
    Post([=](SpeculationLoop& loop) { loop.OnVerifyLost(incarnation, reason); });
  }
  void OnVerdict(uint64_t incarnation, VerifyReply reply) override {
    Post([incarnation, reply = std::move(reply)](SpeculationLoop& loop) mutable {
      loop.OnVerdict(incarnation, std::move(reply));
    });
  }

 private:
  void Post(std::function<void(SpeculationLoop&)> call) {
    if (auto self = call_.lock()) self->OnStrand(std::move(call));
  }
  const std::weak_ptr<GenerateCall> call_;
};

GenerateCall::GenerateCall(GenerationRequest request, const GenerateParts& parts,
                           std::unique_ptr<Detokenizer> detokenizer, std::shared_ptr<Sink> sink,
                           absl::Duration arrived)
    : request_(std::move(request)),
      parts_(parts),
      sink_(std::move(sink)),
      arrived_(arrived),
      stream_(request_, std::move(detokenizer), *this, parts.loop.most_undelivered_tokens) {}

GenerateCall::~GenerateCall() = default;

absl::Status GenerateCall::Prepare(MakeStarted make_started, std::function<void()> done) {
  TANDEM_RETURN_IF_ERROR(stream_.Resume(request_.output_prefix));
  make_started_ = std::move(make_started);
  done_ = std::move(done);
  return absl::OkStatus();
}

void GenerateCall::OnDecided(absl::Status status, absl::Duration waited) {
  strand_.Post([self = shared_from_this(), status = std::move(status), waited]() mutable {
    if (self->ended_) return;
    self->waited_ = waited;
    if (!status.ok()) return self->EndUnbegun(std::move(status));
    absl::StatusOr<v1::Started> started = self->make_started_(self->request_);
    if (!started.ok()) return self->EndUnbegun(started.status());
    self->Start(*std::move(started));
  });
}

void GenerateCall::Start(v1::Started started) {
  SessionNeeds needs{started.target_model_id(), started.numerics_id(), request_.priority};
  v1::GenerateReply reply;
  *reply.mutable_started() = std::move(started);
  sink_->Send(std::move(reply));
  std::weak_ptr<GenerateCall> weak = weak_from_this();
  events_ = std::make_shared<Events>(weak);
  timers_ = std::make_unique<StrandTimers>(
      *parts_.timers, *parts_.clock,
      [weak](std::function<void()> function) {
        auto self = weak.lock();
        if (self == nullptr) return;
        self->OnStrand([function = std::move(function)](SpeculationLoop&) { function(); });
      },
      [this](LoopTimer timer) { loop_->OnTimer(timer); });
  if (parts_.draft != nullptr) draft_ = parts_.draft->NewSession(events_);
  verify_ = parts_.verify->NewSession(events_, std::move(needs));
  LoopParts parts{draft_.get(), verify_.get(),   &stream_,     timers_.get(),
                  parts_.clock, parts_.observer, parts_.decide};
  parts.work_clock = parts_.work_clock;
  loop_ = std::make_unique<SpeculationLoop>(request_, parts_.loop, std::move(parts), arrived_,
                                            [this](Ending ending) { OnEnded(std::move(ending)); });
  loop_->Start();
}

void GenerateCall::OnStrand(std::function<void(SpeculationLoop&)> call) {
  strand_.Post([self = shared_from_this(), call = std::move(call)] {
    if (self->loop_ != nullptr && !self->ended_) call(*self->loop_);
  });
}

void GenerateCall::OnWritten() {
  strand_.Post([self = shared_from_this()] {
    if (!std::exchange(self->started_written_, true) || self->ended_) return;
    self->stream_.OnWritten();
    if (self->loop_ != nullptr) self->loop_->OnDrained();
  });
}

void GenerateCall::Cancel(absl::Status status) {
  strand_.Post([self = shared_from_this(), status = std::move(status)]() mutable {
    if (self->ended_) return;
    if (self->loop_ != nullptr) return self->loop_->OnCancel(std::move(status));
    self->EndUnbegun(std::move(status));
  });
}

void GenerateCall::EndUnbegun(absl::Status status) {
  ended_ = true;
  sink_->Close(std::move(status));
  Release();
}

void GenerateCall::Send(TextDelta delta) {
  v1::GenerateReply reply;
  v1::Delta& wire = *reply.mutable_delta();
  wire.set_text(std::move(delta.text));
  wire.mutable_token_ids()->Add(delta.ids.begin(), delta.ids.end());
  sink_->Send(std::move(reply));  // false: the client is gone, and a cancellation is on its way
}

// Called from inside the loop, which therefore is released by a task of its own.
void GenerateCall::OnEnded(Ending ending) {
  ended_ = true;
  ending.times.admission = waited_;
  if (ending.status.ok()) {
    v1::GenerateReply reply;
    *reply.mutable_last() = MakeLast(request_, ending);
    sink_->Send(std::move(reply));
  }
  // To one that did not read for so long the status goes past what it has not read.
  if (absl::IsAborted(ending.status)) {
    sink_->Abort(std::move(ending.status));
  } else {
    sink_->Close(std::move(ending.status));
  }
  strand_.Post([self = shared_from_this()] { self->Release(); });
}

void GenerateCall::Release() {
  loop_.reset();
  timers_.reset();
  draft_.reset();
  verify_.reset();
  events_.reset();
  make_started_ = nullptr;
  if (auto done = std::exchange(done_, nullptr)) done();
}

v1::Last MakeLast(const GenerationRequest& request, const Ending& ending) {
  v1::Last last;
  last.set_finish_reason(ending.finish == Finish::kStop ? v1::FINISH_REASON_STOP
                                                        : v1::FINISH_REASON_LENGTH);
  last.set_stop_string(ending.stop_string);
  last.mutable_usage()->set_prompt_tokens(request.prompt_tokens());
  last.mutable_usage()->set_completion_tokens(ending.output_tokens -
                                              static_cast<uint32_t>(request.output_prefix.size()));

  const AcceptanceCounts& counts = ending.counts;
  v1::AcceptanceRecord& record = *last.mutable_speculation();
  record.set_rule(rpc::ToWire(request.rule));
  record.set_exact(acceptance::IsExact(request.rule));
  record.set_rounds(counts.rounds);
  record.set_drafted(counts.drafted);
  record.set_accepted(counts.accepted);
  record.mutable_accepted_histogram()->Add(counts.accepted_histogram.begin(),
                                           counts.accepted_histogram.end());
  record.set_rejected_rounds(counts.rejected_rounds);
  for (int i = 0; i < kPlainCauses; ++i) {
    if (counts.plain_rounds[i] == 0) continue;
    v1::CausedRounds& rounds = *record.add_rounds_without_draft();
    rounds.set_cause(Name(static_cast<PlainCause>(i)));
    rounds.set_rounds(counts.plain_rounds[i]);
  }
  record.set_draft_reconnections(counts.draft_reconnections);
  record.set_target_replays(counts.target_replays);
  record.set_one_hot_blocks(counts.one_hot_blocks);
  record.set_batch_rows(counts.batch_rows);
  record.set_batch_sequences(counts.batch_sequences);

  v1::Timing& timing = *last.mutable_timing();
  timing.set_total_us(absl::ToInt64Microseconds(ending.times.total));
  timing.set_first_token_us(absl::ToInt64Microseconds(ending.times.first_token));
  timing.set_draft_us(absl::ToInt64Microseconds(ending.times.draft));
  timing.set_verify_us(absl::ToInt64Microseconds(ending.times.verify));
  timing.set_target_us(absl::ToInt64Microseconds(ending.times.target));
  timing.set_own_us(absl::ToInt64Microseconds(ending.times.own));
  timing.set_admission_us(absl::ToInt64Microseconds(ending.times.admission));
  timing.set_queue_us(absl::ToInt64Microseconds(ending.times.queue));
  timing.set_slot_us(absl::ToInt64Microseconds(ending.times.slot));
  return last;
}

}  // namespace tandem::orchestrator
