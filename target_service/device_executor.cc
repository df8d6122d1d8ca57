#include "target_service/device_executor.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "common/base/check.h"

namespace tandem::target_service {
namespace {

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

DeviceExecutor::DeviceExecutor(const Options& options, std::unique_ptr<Engine> engine,
                               PassObserver& observer)
    : options_(options),
      engine_(std::move(engine)),
      clock_(*options.clock),
      observer_(observer),
      table_({options.max_sequences, options.max_draft_tokens, options.retry_after}, *engine_),
      answers_(streams_, table_, gathering_, clock_, observer_),
      passes_(LimitsOf(options, engine_->info()), *engine_, waiting_, streams_, gathering_,
              answers_, clock_, observer_),
      load_(table_, waiting_, passes_, clock_) {
  TANDEM_CHECK(static_cast<int>(options_.max_draft_tokens) < engine_->info().max_rows);
  load_.Publish();
}

DeviceExecutor::~DeviceExecutor() { passes_.AwaitAll(); }

void DeviceExecutor::Run() {
  while (true) {
    if (RunOnce()) continue;
    concurrency::Instant until = table_.next_expiry();
    if (passes_.Gathers()) until = std::min(until, gathering_.until());
    absl::StatusOr<std::optional<StepEvent>> event = queue_.PopFor(until - clock_.Now());
    if (!event.ok()) {
      if (waiting_.empty()) return;
      gathering_.GiveUp();  // nobody comes any more
      continue;
    }
    if (event->has_value()) TakeIn(**std::move(event));
  }
}

void DeviceExecutor::MeasurePasses() {
  if (options_.measure <= absl::ZeroDuration()) return;
  passes_.Measure(options_.measure);
  load_.Publish();
}

bool DeviceExecutor::RunOnce() {
  bool worked = false;
  while (std::optional<StepEvent> event = queue_.TryPop()) {
    TakeIn(*std::move(event));
    worked = true;
  }
  table_.ExpireLingering(clock_.Now());
  RefuseExpired();
  Flush();  // refusals need not wait for the pass
  worked = passes_.Advance() || worked;
  Flush();
  return worked;
}

void DeviceExecutor::TakeIn(StepEvent event) {
  std::visit([this](auto& alternative) { TakeIn(std::move(alternative)); }, event);
}

void DeviceExecutor::TakeIn(StreamBegins event) {
  const StreamId stream = event.stream;
  const std::string client = event.client_id;
  if (streams_.Begin(std::move(event))) table_.Adopt(client, stream);
}

void DeviceExecutor::TakeIn(BatchArrives event) {
  Stream* const stream = streams_.Find(event.stream);
  if (stream == nullptr) return;  // it was ended meanwhile: nobody reads the verdicts
  for (auto& step : event.steps) {
    if (auto* refused = std::get_if<RefusedStep>(&step)) {
      answers_.Refuse(*stream, std::move(*refused), event.arrived);
    } else {
      TakeStep(*stream, std::move(std::get<CheckedStep>(step)), event.arrived);
    }
  }
  for (uint64_t sequence : event.close) CloseSequence(event.stream, sequence);
}

void DeviceExecutor::TakeIn(StreamFinishes event) {
  if (Stream* stream = streams_.Find(event.stream)) stream->finishing = true;
}

void DeviceExecutor::TakeIn(StreamEnds event) {
  const Stream* const stream = streams_.Find(event.stream);
  if (stream == nullptr) return;
  passes_.AwaitAll();
  waiting_.RemoveStream(event.stream, [this](const Work& work) { observer_.StepDropped(work); });
  gathering_.StreamGone(event.stream);
  // An orderly end leaves nothing behind, even if it breaks while its last Steps are answered.
  if (event.lingers && !stream->finishing && options_.linger > absl::ZeroDuration()) {
    table_.Linger(stream->id, stream->client_id, clock_.Now() + options_.linger);
  } else {
    table_.EraseStream(stream->id);
  }
  streams_.End(event.stream, event.status.ok() ? std::nullopt : std::optional(event.status));
}

void DeviceExecutor::TakeIn(AllEnd) {
  for (StreamId id : streams_.All()) {
    TakeIn(StreamEnds{id, /*lingers=*/false,
                      absl::UnavailableError("the target has shut down: ask another one")});
  }
}

void DeviceExecutor::TakeStep(Stream& stream, CheckedStep step, concurrency::Instant arrived) {
  auto work = std::make_unique<Work>();
  stream.last_step = clock_.Now();
  work->stream = stream.id;
  work->arrived = arrived;
  work->step = std::move(step);
  work->verdict.set_sequence(work->step.sequence);
  work->verdict.set_round(work->step.round);
  if (work->expired(clock_.Now())) {
    answers_.RefuseExpired(*work);
    return;
  }
  auto plan = table_.Begin(stream.id, work->step, draining_, clock_.Now());
  if (auto* refusal = std::get_if<messages::Refusal>(&plan)) {
    answers_.Refuse(*work, std::move(*refusal));
    return;
  }
  work->plan = std::move(std::get<StepPlan>(plan));
  gathering_.Settled(stream.id, work->step.sequence);
  work->plan.sequence->turnaround = arrived - work->plan.sequence->answered_at;
  if (work->plan.tokens.empty()) {  // `more`, and all of it is held
    work->began = clock_.Now();
    answers_.Complete(*work, {});
    return;
  }
  waiting_.Add(std::move(work));
}

void DeviceExecutor::CloseSequence(StreamId stream, uint64_t sequence) {
  passes_.AwaitAll();
  for (const auto& work : waiting_.all()) {
    if (work->stream == stream && work->step.sequence == sequence) {
      answers_.Refuse(*work, messages::MakeRefusal(v1::STATUS_CLOSED, "its sequence was closed"));
    }
  }
  waiting_.RemoveAnswered();
  gathering_.Settled(stream, sequence);
  table_.Erase(stream, sequence);
}

void DeviceExecutor::RefuseExpired() {
  const concurrency::Instant now = clock_.Now();
  for (const auto& work : waiting_.all()) {
    if (work->expired(now)) answers_.RefuseExpired(*work);
  }
  waiting_.RemoveAnswered();
}

void DeviceExecutor::EndFinishedStreams() {
  for (StreamId id : streams_.Finishing()) {
    if (waiting_.Has(id)) continue;
    table_.EraseStream(id);
    streams_.End(id, absl::OkStatus());
  }
}

void DeviceExecutor::Flush() {
  streams_.Send([this](Stream& stream) { return load_.For(stream); });
  EndFinishedStreams();
  active_sequences_ = table_.size();
  lingering_sequences_ = table_.lingering();
  load_.Publish();
}

}  // namespace tandem::target_service
