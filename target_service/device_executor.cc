#include "target_service/device_executor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/messages/limits.h"
#include "target_service/cost_probe.h"

namespace tandem::target_service {

namespace {

// Of the verdicts of one message; the rest is for the load and the framing. One verdict alone is far
// below it.
constexpr size_t kMaxVerdictBytes = messages::kMaxMessageBytes - (64 << 10);

absl::Status TookOver() {
  return absl::AbortedError("a newer stream of this client took over (its incarnation)");
}

messages::Refusal Expired(const CheckedStep& step) {
  return messages::MakeRefusal(v1::STATUS_EXPIRED,
                               absl::StrCat("the ", absl::FormatDuration(step.remaining),
                                            " that were left had passed before work began"));
}

v1::Verdict RefusedVerdict(uint64_t sequence, uint64_t round, messages::Refusal refusal) {
  v1::Verdict verdict;
  verdict.set_sequence(sequence);
  verdict.set_round(round);
  verdict.set_status(refusal.status);
  *verdict.mutable_problem() = std::move(refusal.problem);
  return verdict;
}

SequenceTable::Limits TableLimits(const Options& options, uint32_t vocabulary_size) {
  return {options.max_sequences, options.max_draft_tokens, vocabulary_size, options.retry_after};
}

}  // namespace

DeviceExecutor::DeviceExecutor(const Options& options, std::unique_ptr<model::LanguageModel> model,
                               PassObserver& observer)
    : options_(options),
      vocabulary_size_(options.vocabulary_size > 0 ? options.vocabulary_size
                                                   : model->info().vocabulary_size),
      model_(std::move(model)),
      clock_(*options.clock),
      observer_(observer),
      started_(clock_.Now()),
      curve_(model_->max_rows()),
      policy_({model_->max_rows(), static_cast<int>(options.pass_rows),
               static_cast<int>(options.prefill_rows),
               2 * (static_cast<int>(options.max_draft_tokens) + 1)}),
      table_(TableLimits(options, vocabulary_size_), *model_) {
  TANDEM_CHECK(options_.judge != nullptr && options_.clock != nullptr);
  TANDEM_CHECK(static_cast<int>(options_.max_draft_tokens) < model_->max_rows());
  TellLoad();
}

DeviceExecutor::~DeviceExecutor() = default;

absl::Duration DeviceExecutor::busy_for() const {
  const int64_t since = busy_since_ns_;
  return since == 0 ? absl::ZeroDuration() : clock_.Now() - absl::Nanoseconds(since);
}

void DeviceExecutor::Run() {
  while (true) {
    if (RunOnce()) continue;
    absl::Duration until = table_.next_expiry();
    if (Gathers()) until = std::min(until, gathering_.until());
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
  MeasureCosts(*model_, clock_, options_.measure, curve_);
  TellLoad();
}

bool DeviceExecutor::RunOnce() {
  bool worked = false;
  while (std::optional<StepEvent> event = queue_.TryPop()) {
    TakeIn(*std::move(event));
    worked = true;
  }
  table_.ExpireLingering(clock_.Now());
  ExpireWaiting();
  RemoveAnswered();
  Flush();  // refusals need not wait for the pass
  if (!Gathers()) worked = RunPass() || worked;
  Flush();
  return worked;
}

void DeviceExecutor::TakeIn(StepEvent event) {
  std::visit([this](auto& alternative) { TakeIn(std::move(alternative)); }, event);
}

void DeviceExecutor::TakeIn(StreamBegins event) {
  // Two streams of a client that came at the same time may get here in either order.
  for (const auto& [id, other] : streams_) {
    if (other->client_id == event.client_id && other->incarnation > event.incarnation) {
      event.sink->Close(TookOver());
      return;
    }
  }
  auto stream = std::make_unique<Stream>();
  stream->id = event.stream;
  stream->client_id = event.client_id;
  stream->incarnation = event.incarnation;
  table_.Adopt(event.client_id, event.stream);
  stream->sink = std::move(event.sink);
  streams_[event.stream] = std::move(stream);
}

void DeviceExecutor::TakeIn(BatchArrives event) {
  auto it = streams_.find(event.stream);
  if (it == streams_.end()) return;  // it was ended meanwhile: nobody reads the verdicts
  Stream& stream = *it->second;
  for (auto& step : event.steps) {
    if (auto* refused = std::get_if<RefusedStep>(&step)) {
      AnswerRefused(stream, std::move(*refused), event.arrived);
    } else {
      TakeStep(stream, std::move(std::get<CheckedStep>(step)), event.arrived);
    }
  }
  for (uint64_t sequence : event.close) CloseSequence(stream, sequence);
}

void DeviceExecutor::TakeIn(StreamFinishes event) {
  if (auto it = streams_.find(event.stream); it != streams_.end()) it->second->finishing = true;
}

void DeviceExecutor::TakeIn(StreamEnds event) {
  auto it = streams_.find(event.stream);
  if (it == streams_.end()) return;
  std::erase_if(waiting_, [this, &event](const auto& work) {
    if (work->stream != event.stream) return false;
    observer_.StepDropped(*work);
    return true;
  });
  gathering_.StreamGone(event.stream);
  const Stream& stream = *it->second;
  // An orderly end leaves nothing behind, even if it breaks while its last Steps are answered.
  if (event.lingers && !stream.finishing && options_.linger > absl::ZeroDuration()) {
    table_.Linger(stream.id, stream.client_id, clock_.Now() + options_.linger);
  } else {
    table_.EraseStream(stream.id);
  }
  if (!event.status.ok()) stream.sink->Close(event.status);
  streams_.erase(it);
}

void DeviceExecutor::TakeIn(AllEnd) {
  std::vector<StreamId> all;
  for (const auto& [id, stream] : streams_) all.push_back(id);
  for (StreamId id : all) {
    TakeIn(StreamEnds{id, /*lingers=*/false,
                      absl::UnavailableError("the target has shut down: ask another one")});
  }
}

void DeviceExecutor::TakeStep(Stream& stream, CheckedStep step, absl::Duration arrived) {
  auto work = std::make_unique<Work>();
  stream.last_step = clock_.Now();
  work->stream = stream.id;
  work->arrived = arrived;
  work->step = std::move(step);
  work->verdict.set_sequence(work->step.sequence);
  work->verdict.set_round(work->step.round);
  if (work->expired(clock_.Now())) {
    AnswerRefused(*work, Expired(work->step));
    return;
  }
  auto plan = table_.Begin(stream.id, work->step, draining_, clock_.Now());
  if (auto* refusal = std::get_if<messages::Refusal>(&plan)) {
    AnswerRefused(*work, std::move(*refusal));
    return;
  }
  work->plan = std::move(std::get<StepPlan>(plan));
  gathering_.Settled(stream.id, work->step.sequence);
  work->plan.sequence->turnaround = arrived - work->plan.sequence->answered_at;
  if (work->plan.tokens.empty()) {  // `more`, and all of it is held
    work->began = clock_.Now();
    Complete(*work, {}, 0);
    return;
  }
  waiting_.push_back(std::move(work));
}

void DeviceExecutor::CloseSequence(Stream& stream, uint64_t sequence) {
  for (auto& work : waiting_) {
    if (work->stream == stream.id && work->step.sequence == sequence) {
      AnswerRefused(*work, messages::MakeRefusal(v1::STATUS_CLOSED, "its sequence was closed"));
    }
  }
  RemoveAnswered();
  gathering_.Settled(stream.id, sequence);
  table_.Erase(stream.id, sequence);
}

void DeviceExecutor::ExpireWaiting() {
  const absl::Duration now = clock_.Now();
  for (auto& work : waiting_) {
    if (work->expired(now)) AnswerRefused(*work, Expired(work->step));
  }
}

void DeviceExecutor::AnswerRefused(Work& work, messages::Refusal refusal) {
  if (work.answered) return;
  if (work.plan.sequence != nullptr) work.plan.sequence->busy = false;
  work.answered = true;
  v1::Verdict& verdict = *streams_.at(work.stream)->outgoing.add_verdicts();
  verdict = RefusedVerdict(work.step.sequence, work.step.round, std::move(refusal));
  observer_.StepAnswered({verdict, work.step.trace, work.arrived, &work});
}

void DeviceExecutor::AnswerRefused(Stream& stream, RefusedStep step, absl::Duration arrived) {
  v1::Verdict& verdict = *stream.outgoing.add_verdicts();
  verdict = RefusedVerdict(step.sequence, step.round, std::move(step.refusal));
  observer_.StepAnswered({verdict, step.trace, arrived});
}

void DeviceExecutor::RemoveAnswered() {
  std::erase_if(waiting_, [](const auto& work) { return work->answered; });
}

void DeviceExecutor::EndFinishedStreams() {
  std::vector<StreamId> finished;
  for (const auto& [id, stream] : streams_) {
    if (!stream->finishing) continue;
    const StreamId stream_id = id;
    const bool waits = std::any_of(waiting_.begin(), waiting_.end(), [stream_id](const auto& work) {
      return work->stream == stream_id;
    });
    if (!waits) finished.push_back(id);
  }
  for (StreamId id : finished) {
    table_.EraseStream(id);
    streams_.at(id)->sink->Close(absl::OkStatus());
    streams_.erase(id);
  }
}

void DeviceExecutor::SendVerdicts(Stream& stream, v1::Verdicts verdicts) {
  *verdicts.mutable_load() = LoadFor(stream);
  v1::TargetReply reply;
  *reply.mutable_verdicts() = std::move(verdicts);
  stream.sink->Send(std::move(reply));  // false: the stream is over, and its end is on its way
}

void DeviceExecutor::Flush() {
  for (auto& [id, stream] : streams_) {
    if (stream->outgoing.verdicts_size() == 0) continue;
    v1::Verdicts message;
    size_t bytes = 0;
    for (v1::Verdict& verdict : *stream->outgoing.mutable_verdicts()) {
      const size_t more = verdict.ByteSizeLong();
      if (bytes > 0 && bytes + more > kMaxVerdictBytes) {
        SendVerdicts(*stream, std::exchange(message, {}));
        bytes = 0;
      }
      bytes += more;
      *message.add_verdicts() = std::move(verdict);
    }
    SendVerdicts(*stream, std::move(message));
    stream->outgoing.Clear();
  }
  EndFinishedStreams();
  active_sequences_ = table_.size();
  lingering_sequences_ = table_.lingering();
  TellLoad();
}

}  // namespace tandem::target_service
