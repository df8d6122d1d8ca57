#include "target_service/executor.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/check.h"

namespace tandem::target_service {
namespace {

constexpr size_t kMaxBatches = 4096;  // that wait

PassLimits LimitsOf(const Options& options, const EngineInfo& engine) {
  PassLimits limits;
  limits.max_rows = engine.max_rows;
  limits.pass_rows = static_cast<int>(options.pass_rows);
  limits.prefill_rows = static_cast<int>(options.prefill_rows);
  limits.short_rows = 2 * (static_cast<int>(options.max_draft_tokens) + 1);
  limits.row_buckets = engine.row_buckets;
  return limits;
}

}  // namespace

Executor::Executor(const Options& options, std::unique_ptr<Engine> engine, PassObserver& observer)
    : serving::Executor<Stream, BatchArrives>(
          {.clock = options.clock,
           .max_waiting = kMaxBatches,
           .too_many =
               "too many Batches wait for the device: wait for verdicts before sending more",
           .shut_down = "the target has shut down: ask another one"}),
      options_(options),
      engine_(std::move(engine)),
      observer_(observer),
      table_({options.max_sequences, options.max_draft_tokens, options.retry_after}, *engine_),
      answers_(streams(), table_, clock(), observer_),
      passes_(LimitsOf(options, engine_->info()), *engine_, waiting_, streams(), gathering_,
              answers_, clock(), meter(), observer_),
      chained_(engine_->info().max_length(), waiting_, table_, passes_, gathering_, answers_,
               clock()),
      load_(table_, waiting_, passes_, clock(), meter()) {
  TANDEM_CHECK(static_cast<int>(options_.max_draft_tokens) < engine_->info().max_rows);
  load_.Publish();
}

Executor::~Executor() { passes_.AwaitAll(); }

void Executor::MeasurePasses() {
  if (options_.measure <= absl::ZeroDuration()) return;
  passes_.Measure(options_.measure);
  if (!passes_.device_status().ok()) GiveUp(passes_.device_status());
  load_.Publish();
}

bool Executor::Compute() {
  table_.ExpireLingering(clock().Now());
  RefuseExpired();
  chained_.Begin();
  Flush();  // refusals need not wait for the pass
  const bool worked = passes_.Advance();
  if (failure().ok() && !passes_.device_status().ok()) GiveUp(passes_.device_status());
  Flush();
  return worked;
}

concurrency::Instant Executor::WakesAt() const {
  const concurrency::Instant expiry = table_.next_expiry();
  return passes_.Gathers() ? std::min(expiry, gathering_.until()) : expiry;
}

bool Executor::IsDone() {
  if (waiting_.empty()) return true;
  gathering_.GiveUp();  // nobody comes any more
  return false;
}

void Executor::Began(Stream& stream) {
  // Two streams of a client that came at the same time may get here in either order.
  if (IsOvertaken(stream, streams())) {
    streams().End(stream.id, Overtaken());
  } else {
    table_.Adopt(stream.client_id, stream.id);
  }
}

void Executor::Handle(BatchArrives event) {
  Stream* const stream = streams().Find(event.stream);
  if (stream == nullptr) return;  // it was ended meanwhile: nobody reads the verdicts
  if (stream->owed == 0) stream->quiet_since = clock().Now();
  for (auto& step : event.steps) {
    stream->Owe();
    if (auto* refused = std::get_if<RefusedStep>(&step)) {
      answers_.Refuse(*stream, std::move(*refused), event.arrived);
    } else {
      HandleStep(*stream, std::move(std::get<CheckedStep>(step)), event.arrived);
    }
  }
  for (SequenceId sequence : event.close) CloseSequence(event.stream, sequence);
}

void Executor::Free(Stream& stream, bool may_return) {
  if (stream.owed > 0) passes_.AwaitAll();
  waiting_.RemoveStream(stream.id, [this](const Work& work) { observer_.StepDropped(work); });
  gathering_.StreamGone(stream.id);
  // An orderly end leaves nothing behind, even if it breaks while its last Steps are answered.
  if (may_return && !streams().IsFinishing(stream.id) && options_.linger > absl::ZeroDuration()) {
    table_.Linger(stream.id, stream.client_id, clock().Now() + options_.linger);
  } else {
    table_.EraseStream(stream.id);
  }
}

void Executor::HandleStep(Stream& stream, CheckedStep step, concurrency::Instant arrived) {
  auto work = std::make_unique<Work>();
  stream.last_step = clock().Now();
  work->stream = stream.id;
  work->arrived = arrived;
  work->prefill = passes_.PrefillSince(arrived);
  work->step = std::move(step);
  work->verdict.set_sequence(base::Number(work->step.sequence));
  work->verdict.set_round(work->step.round);
  if (work->expired(clock().Now())) {
    answers_.RefuseExpired(*work);
    return;
  }
  if (work->step.after.has_value()) return chained_.Add(std::move(work));
  chained_.Overrule(stream.id, work->step.sequence);
  const Sequence* const held = table_.Find(stream.id, work->step.sequence);
  const absl::Duration turnaround = held == nullptr
                                        ? absl::InfiniteDuration()
                                        : held->TurnaroundOf(work->step.committed(), arrived);
  auto plan = table_.Begin(stream.id, work->step, draining(), clock().Now());
  if (auto* refusal = std::get_if<messages::Refusal>(&plan)) {
    answers_.Refuse(*work, std::move(*refusal));
    return;
  }
  work->plan = std::move(std::get<StepPlan>(plan));
  gathering_.Settled(stream.id, work->step.sequence);
  work->plan.sequence->turnaround = turnaround;
  if (work->plan.tokens.empty()) {  // `more`, and all of it is held
    work->began = clock().Now();
    answers_.Complete(*work, {});
    return;
  }
  waiting_.Add(std::move(work));
}

void Executor::CloseSequence(StreamId stream, SequenceId sequence) {
  passes_.AwaitAll();
  for (const auto& work : waiting_.all()) {
    if (work->stream == stream && work->step.sequence == sequence) {
      answers_.Refuse(
          *work, messages::MakeRefusal(internal::v1::STATUS_CLOSED, "its sequence was closed"));
    }
  }
  waiting_.RemoveAnswered();
  gathering_.Settled(stream, sequence);
  table_.Erase(stream, sequence);
}

void Executor::RefuseExpired() {
  const concurrency::Instant now = clock().Now();
  for (const auto& work : waiting_.all()) {
    if (work->expired(now)) answers_.RefuseExpired(*work);
  }
  waiting_.RemoveAnswered();
}

void Executor::Flush() {
  answers_.Send([this](Stream& stream) { return load_.For(stream); });
  EndFinished();
  set_active_sequences(table_.size());
  lingering_sequences_ = table_.lingering();
  load_.Publish();
}

}  // namespace tandem::target_service
