#include "draft_service/draft_executor.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "common/base/version.h"
#include "common/telemetry/metrics_text.h"

namespace tandem::draft_service {

DraftExecutor::DraftExecutor(const Options& options)
    : instance_id_(options.instance_id),
      clock_(*options.clock),
      load_(clock_),
      observer_(options.tracer),
      streams_(clock_, observer_,
               [this] {
                 Report();
                 return load_.Snapshot();
               }),
      sequences_(options),
      passes_(options.step_rows, clock_),
      blocks_(options.vocabulary_size, clock_, streams_, sequences_, passes_) {
  Report();
}

DraftExecutor::~DraftExecutor() = default;

absl::Status DraftExecutor::Push(DraftEvent event) {
  const bool is_work =
      std::holds_alternative<OpenArrives>(event) || std::holds_alternative<AdvanceArrives>(event);
  if (is_work && queue_.size() >= kMaxQueued) {
    return absl::ResourceExhaustedError(
        "too many messages wait for the drafting thread: wait for Blocks before sending more");
  }
  return queue_.TryPush(std::move(event));
}

void DraftExecutor::Drain() {
  draining_ = true;
  Push(DrainBegins()).IgnoreError();
}

std::string DraftExecutor::MetricsText() const {
  return telemetry::MetricsText(observer_.metrics().Collect(load(), active_sequences()),
                                {"draft", std::string(base::Version()), instance_id_});
}

void DraftExecutor::Run() {
  while (true) {
    if (RunOnce()) continue;
    absl::StatusOr<DraftEvent> event = queue_.Pop();
    if (!event.ok()) return;
    load_.BeginWork();
    TakeIn(*std::move(event));
  }
}

bool DraftExecutor::RunOnce() {
  // No more than there are now, so that passes go on however fast messages come.
  const size_t queued = queue_.size();
  if (queued > 0 || !passes_.empty()) load_.BeginWork();
  for (size_t i = 0; i < queued; ++i) {
    if (std::optional<DraftEvent> event = queue_.TryPop()) TakeIn(*std::move(event));
  }
  blocks_.CutLate();
  const bool ran = RunPasses();
  EndFinished();
  Report();
  load_.EndWork();
  return ran || queued > 0;
}

bool DraftExecutor::RunPasses() {
  return passes_.Run([this](const EndedPass& pass) {
    if (pass.rows > 0) {
      load_.CountPass(static_cast<uint64_t>(pass.rows), static_cast<uint64_t>(pass.sequences));
      observer_.OnPass(pass.rows, pass.sequences);
    }
    blocks_.Take(pass);
  });
}

// ---- events ----

void DraftExecutor::TakeIn(DraftEvent event) {
  std::visit([this](auto& alternative) { TakeIn(std::move(alternative)); }, event);
}

void DraftExecutor::TakeIn(StreamBegins event) {
  streams_.Begin(event.stream, std::move(event.sink), event.client_id);
}

void DraftExecutor::TakeIn(OpenArrives event) {
  if (!streams_.Has(event.stream)) return;
  const uint64_t group = streams_.group(event.stream);
  Sequence* sequence = sequences_.Open(std::move(event), group, draining_);
  if (sequence != nullptr) passes_.JoinOrLeave(*sequence);  // a long prompt is read ahead
}

void DraftExecutor::TakeIn(CloseArrives event) {
  Sequence* sequence = sequences_.Find(event.stream, event.sequence);
  if (sequence == nullptr) return;
  passes_.Leave(*sequence);
  if (sequence->unanswered.has_value()) {
    blocks_.Refuse(*sequence, messages::MakeRefusal(v1::STATUS_CLOSED, "its sequence was closed"));
  }
  sequences_.Erase(*sequence);
}

void DraftExecutor::TakeIn(StreamEnds event) {
  if (streams_.Has(event.stream)) EraseStream(event.stream);
}

// ---- the ends of streams ----

void DraftExecutor::EndFinished() {
  for (StreamId id : streams_.Finished()) {
    streams_.Close(id, absl::OkStatus());
    EraseStream(id);
  }
  if (draining_) HandOver(streams_.Idle());
}

// Whoever is told so opens at another draft at once, and has it ready at the next round. To wait
// for the end of its requests would be no better for them: a draft's state is cheap to build anew.
void DraftExecutor::HandOver(const std::vector<StreamId>& streams) {
  for (StreamId id : streams) {
    streams_.Close(id, absl::UnavailableError("the draft is shutting down: open at another one"));
    EraseStream(id);
  }
}

void DraftExecutor::EraseStream(StreamId stream) {
  while (Sequence* sequence = sequences_.AnyOf(stream)) {
    blocks_.Drop(*sequence);
    passes_.Leave(*sequence);
    sequences_.Erase(*sequence);
  }
  streams_.Erase(stream);
}

// ---- what others are told ----

void DraftExecutor::Report() {
  active_sequences_ = sequences_.live();
  const size_t free = draining_ ? 0 : sequences_.free();
  const int64_t rows = std::clamp<int64_t>(passes_.waiting_rows(), 0, UINT32_MAX);
  load_.SetWaiting(static_cast<uint32_t>(free), static_cast<uint32_t>(rows));
}

}  // namespace tandem::draft_service
