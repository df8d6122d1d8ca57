#include "target_service/device_executor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/check.h"
#include "common/config/log.h"
#include "target_service/judging.h"

namespace tandem::target_service {

struct DeviceExecutor::Stream {
  StreamId id = 0;
  std::shared_ptr<VerdictSink> sink;
  v1::Verdicts outgoing;
  bool finishing = false;  // the client sends nothing more
};

// One Step between its arrival and its verdict.
struct DeviceExecutor::Work {
  StreamId stream = 0;
  CheckedStep step;
  StepPlan plan;
  size_t done = 0;  // of plan.tokens
  absl::Duration arrived;
  absl::Duration began = absl::InfiniteDuration();  // its first pass
  absl::Duration computed;
  v1::Verdict verdict;
  bool answered = false;

  bool started() const { return began != absl::InfiniteDuration(); }
  WaitingRows left() const {
    const int total = static_cast<int>(plan.tokens.size() - done);
    return {total - plan.verify_rows, plan.verify_rows};
  }
  bool expired(absl::Duration now) const { return !started() && now - arrived >= step.remaining; }
};

namespace {

rpc::Refusal Expired(const CheckedStep& step) {
  return rpc::MakeRefusal(v1::STATUS_EXPIRED,
                          absl::StrCat("the ", absl::FormatDuration(step.remaining),
                                       " that were left had passed before work began"));
}

v1::Verdict RefusedVerdict(uint64_t sequence, uint64_t round, rpc::Refusal refusal) {
  v1::Verdict verdict;
  verdict.set_sequence(sequence);
  verdict.set_round(round);
  verdict.set_status(refusal.status);
  *verdict.mutable_problem() = std::move(refusal.problem);
  return verdict;
}

SequenceTable::Limits TableLimits(const Options& options, uint32_t vocabulary_size) {
  return {options.most_sequences, options.most_candidates, vocabulary_size, options.retry_after};
}

}  // namespace

DeviceExecutor::DeviceExecutor(const Options& options, std::unique_ptr<model::LanguageModel> model)
    : options_(options),
      vocabulary_size_(options.vocabulary_size > 0 ? options.vocabulary_size
                                                   : model->info().vocabulary_size),
      model_(std::move(model)),
      clock_(*options.clock),
      pass_limits_{model_->most_rows(), static_cast<int>(options.prefill_rows),
                   2 * (static_cast<int>(options.most_candidates) + 1)},
      table_(TableLimits(options, vocabulary_size_), *model_) {
  TANDEM_CHECK(options_.judge != nullptr && options_.clock != nullptr);
  TANDEM_CHECK(static_cast<int>(options_.most_candidates) < model_->most_rows());
}

DeviceExecutor::~DeviceExecutor() = default;

absl::Duration DeviceExecutor::busy_for() const {
  const int64_t since = busy_since_ns_;
  return since == 0 ? absl::ZeroDuration() : clock_.Now() - absl::Nanoseconds(since);
}

void DeviceExecutor::Run() {
  while (true) {
    if (RunOnce()) continue;
    absl::StatusOr<StepEvent> event = queue_.Pop();
    if (!event.ok()) return;
    TakeIn(*std::move(event));
  }
}

bool DeviceExecutor::RunOnce() {
  bool worked = false;
  while (std::optional<StepEvent> event = queue_.TryPop()) {
    TakeIn(*std::move(event));
    worked = true;
  }
  ExpireWaiting();
  RemoveAnswered();
  Flush();  // refusals need not wait for the pass
  worked = RunPass() || worked;
  Flush();
  return worked;
}

void DeviceExecutor::TakeIn(StepEvent event) {
  std::visit([this](auto& alternative) { TakeIn(std::move(alternative)); }, event);
}

void DeviceExecutor::TakeIn(StreamBegins event) {
  auto stream = std::make_unique<Stream>();
  stream->id = event.stream;
  stream->sink = std::move(event.sink);
  streams_[event.stream] = std::move(stream);
}

void DeviceExecutor::TakeIn(BatchArrives event) {
  auto it = streams_.find(event.stream);
  if (it == streams_.end()) return;  // it was ended meanwhile: nobody reads the verdicts
  Stream& stream = *it->second;
  for (auto& step : event.steps) {
    if (auto* refused = std::get_if<RefusedStep>(&step)) {
      *stream.outgoing.add_verdicts() =
          RefusedVerdict(refused->sequence, refused->round, std::move(refused->refusal));
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
  std::erase_if(waiting_, [&event](const auto& work) { return work->stream == event.stream; });
  table_.EraseStream(event.stream);
  if (!event.status.ok()) it->second->sink->Close(event.status);
  streams_.erase(it);
}

void DeviceExecutor::TakeStep(Stream& stream, CheckedStep step, absl::Duration arrived) {
  auto work = std::make_unique<Work>();
  work->stream = stream.id;
  work->arrived = arrived;
  work->step = std::move(step);
  work->verdict.set_sequence(work->step.sequence);
  work->verdict.set_round(work->step.round);
  if (work->expired(clock_.Now())) {
    AnswerRefused(*work, Expired(work->step));
    return;
  }
  auto plan = table_.Begin(stream.id, work->step, draining_);
  if (auto* refusal = std::get_if<rpc::Refusal>(&plan)) {
    AnswerRefused(*work, std::move(*refusal));
    return;
  }
  work->plan = std::move(std::get<StepPlan>(plan));
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
      AnswerRefused(*work, rpc::MakeRefusal(v1::STATUS_CLOSED, "its sequence was closed"));
    }
  }
  RemoveAnswered();
  table_.Erase(stream.id, sequence);
}

void DeviceExecutor::ExpireWaiting() {
  const absl::Duration now = clock_.Now();
  for (auto& work : waiting_) {
    if (work->expired(now)) AnswerRefused(*work, Expired(work->step));
  }
}

bool DeviceExecutor::RunPass() {
  if (waiting_.empty()) return false;
  std::vector<WaitingRows> rows;
  rows.reserve(waiting_.size());
  for (const auto& work : waiting_) rows.push_back(work->left());
  const std::vector<Grant> grants = FormPass(rows, pass_limits_);
  TANDEM_CHECK(!grants.empty()) << waiting_.size() << " Steps wait";

  const absl::Duration began = clock_.Now();
  busy_since_ns_ = absl::ToInt64Nanoseconds(began);
  std::vector<model::StepPart> parts;
  parts.reserve(grants.size());
  uint32_t pass_rows = 0;
  for (const Grant& grant : grants) {
    Work& work = *waiting_[grant.index];
    if (!work.started()) work.began = began;
    const bool last = grant.rows == work.left().total();
    parts.push_back(
        {work.plan.sequence->cache.get(),
         absl::MakeConstSpan(work.plan.tokens).subspan(work.done, static_cast<size_t>(grant.rows)),
         last ? grant.rows - work.plan.verify_rows : grant.rows});
    pass_rows += static_cast<uint32_t>(grant.rows);
  }
  absl::StatusOr<model::Logits> logits = model_->Step(parts);
  ++last_pass_;
  if (!logits.ok()) {
    FailPass(grants, logits.status());
    busy_since_ns_ = 0;
    return true;
  }
  const absl::Duration computed = clock_.Now() - began;
  int first_row = 0;
  for (size_t i = 0; i < grants.size(); ++i) {
    Work& work = *waiting_[grants[i].index];
    work.plan.sequence->held.Append(parts[i].tokens);
    work.done += parts[i].tokens.size();
    work.computed += computed;
    work.verdict.set_pass_id(last_pass_);
    work.verdict.set_pass_rows(pass_rows);
    work.verdict.set_pass_sequences(static_cast<uint32_t>(grants.size()));
    if (work.done < work.plan.tokens.size()) continue;
    Complete(work, *logits, first_row);
    first_row += work.plan.verify_rows;
  }
  RemoveAnswered();
  busy_since_ns_ = 0;
  return true;
}

// The caches of a failed step may hold anything, so their sequences end with it.
void DeviceExecutor::FailPass(const std::vector<Grant>& grants, const absl::Status& status) {
  TANDEM_LOG(kError) << "a pass of " << grants.size() << " sequences failed: " << status;
  for (const Grant& grant : grants) {
    Work& work = *waiting_[grant.index];
    AnswerRefused(work, rpc::MakeRefusal(v1::STATUS_INTERNAL, status.ToString()));
    table_.Erase(work.stream, work.step.sequence);
  }
  RemoveAnswered();
}

void DeviceExecutor::Complete(Work& work, const model::Logits& logits, int first_row) {
  v1::Verdict& verdict = work.verdict;
  if (!work.step.more) {
    const auto entries = JudgeRows(options_.judge, work.plan.sequence->settings, work.step, logits,
                                   first_row, vocabulary_size_);
    if (!entries.ok()) {
      AnswerRefused(work,
                    rpc::MakeRefusal(v1::STATUS_INTERNAL, std::string(entries.status().message())));
      table_.Erase(work.stream, work.step.sequence);
      return;
    }
    for (const acceptance::Entry& entry : *entries) {
      v1::Entry* sent = verdict.add_entries();
      sent->set_accept_probability(entry.accept_probability);
      if (entry.next_token.has_value()) sent->set_next_token(*entry.next_token);
    }
    work.plan.sequence->last_round = work.step.round;
  }
  verdict.set_status(v1::STATUS_OK);
  verdict.set_one_hot_candidates(work.step.one_hot_candidates);
  verdict.set_queued_us(
      static_cast<uint64_t>(absl::ToInt64Microseconds(work.began - work.arrived)));
  verdict.set_computed_us(static_cast<uint64_t>(absl::ToInt64Microseconds(work.computed)));
  work.plan.sequence->busy = false;
  work.answered = true;
  *streams_.at(work.stream)->outgoing.add_verdicts() = std::move(verdict);
}

void DeviceExecutor::AnswerRefused(Work& work, rpc::Refusal refusal) {
  if (work.answered) return;
  if (work.plan.sequence != nullptr) work.plan.sequence->busy = false;
  work.answered = true;
  *streams_.at(work.stream)->outgoing.add_verdicts() =
      RefusedVerdict(work.step.sequence, work.step.round, std::move(refusal));
}

void DeviceExecutor::RemoveAnswered() {
  std::erase_if(waiting_, [](const auto& work) { return work->answered; });
}

void DeviceExecutor::Flush() {
  std::vector<StreamId> finished;
  for (auto& [id, stream] : streams_) {
    if (stream->outgoing.verdicts_size() > 0) {
      *stream->outgoing.mutable_load() = CurrentLoad();
      v1::TargetReply reply;
      *reply.mutable_verdicts() = std::move(stream->outgoing);
      stream->outgoing.Clear();
      stream->sink->Send(std::move(reply));  // false: the stream is over, and its end is on its way
    }
    const StreamId stream_id = id;
    if (stream->finishing && std::none_of(waiting_.begin(), waiting_.end(), [&](const auto& work) {
          return work->stream == stream_id;
        })) {
      finished.push_back(id);
    }
  }
  for (StreamId id : finished) {
    table_.EraseStream(id);
    streams_.at(id)->sink->Close(absl::OkStatus());
    streams_.erase(id);
  }
  active_sequences_ = table_.size();
}

v1::Load DeviceExecutor::CurrentLoad() const {
  v1::Load load;
  load.set_free_slots(table_.free_slots());
  uint32_t rows = 0;
  for (const auto& work : waiting_) rows += static_cast<uint32_t>(work->left().total());
  load.set_queued_rows(rows);
  return load;
}

}  // namespace tandem::target_service
