#include "draft_service/draft_executor.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/version.h"
#include "common/telemetry/metrics_text.h"
#include "draft_service/block_reply.h"

namespace tandem::draft_service {

using messages::Refusal;

namespace {

// With what is known before its Block: valid as long as the sequence is.
EndedAdvance Ended(const Sequence& sequence, const Unanswered& advance) {
  return {.trace = advance.trace,
          .drafter = sequence.drafter_name,
          .max_draft_tokens = advance.max_draft_tokens,
          .arrived = advance.arrived,
          .computed = advance.computed};
}

}  // namespace

DraftExecutor::DraftExecutor(const Options& options)
    : options_(options), clock_(*options.clock), load_(clock_), observer_(options.tracer) {
  TANDEM_CHECK(!options_.drafters.empty());
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
                                {"draft", std::string(base::Version()), options_.instance_id});
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
  // No more than there are now, so that Steps go on however fast messages come.
  const size_t queued = queue_.size();
  if (queued > 0 || !at_work_.empty()) load_.BeginWork();
  for (size_t i = 0; i < queued; ++i) {
    if (std::optional<DraftEvent> event = queue_.TryPop()) TakeIn(*std::move(event));
  }
  CutLate();
  const bool stepped = StepAll();
  EndFinished();
  Report();
  load_.EndWork();
  return stepped || queued > 0;
}

// What is late is cut before a Step that it would be in, or that would make it later than it may
// be. The decision looks at the clock and at the time that recent Steps took, never at a token or
// its probability.
void DraftExecutor::CutLate() {
  const absl::Duration now = clock_.Now();
  std::map<const model::LanguageModel*, absl::Duration> step_time;
  for (const auto& [model, batcher] : batchers_) step_time[model] = batcher.ExpectedTime();
  std::vector<Sequence*> late;
  for (const auto& [id, sequence] : at_work_) {
    if (!sequence->unanswered.has_value()) continue;  // reads ahead
    const Unanswered& advance = *sequence->unanswered;
    if (advance.wanted_within == absl::InfiniteDuration()) continue;
    const absl::Duration left = advance.deadline() - now;
    const bool another_is_too_late =
        advance.drafted > 0 && left < step_time.at(&sequence->stepped()->model());
    if (left <= absl::ZeroDuration() || another_is_too_late) late.push_back(sequence);
  }
  for (Sequence* sequence : late) {
    const DraftedBlock drafted = EndBlock(*sequence);
    if (drafted.tokens.empty()) {
      const absl::Duration within = sequence->unanswered->wanted_within;
      AnswerRefused(*sequence, messages::MakeRefusal(v1::STATUS_EXPIRED,
                                                     absl::StrCat("nothing was drafted within ",
                                                                  absl::FormatDuration(within))));
    } else {
      AnswerDrafted(*sequence, drafted);
    }
    JoinOrLeave(*sequence);
  }
}

bool DraftExecutor::StepAll() {
  bool stepped = false;
  for (auto& [model, batcher] : batchers_) {
    if (!batcher.empty()) stepped = StepOnce(batcher) || stepped;
  }
  return stepped;
}

bool DraftExecutor::StepOnce(StepBatcher& batcher) {
  const absl::Duration began = clock_.Now();
  const StepReport report = batcher.Run();
  const absl::Duration time = clock_.Now() - began;  // with the drawing of tokens
  if (report.rows > 0) {
    load_.CountPass(static_cast<uint64_t>(report.rows), static_cast<uint64_t>(report.sequences));
    observer_.OnPass(report.rows, report.sequences);
  }
  for (const StepResult& result : report.results) {
    Sequence& sequence = *at_work_.at(result.member);
    const bool asked = sequence.unanswered.has_value();
    if (asked) {
      sequence.unanswered->computed += time;
      sequence.unanswered->drafted += result.drafted ? 1 : 0;
    }
    if (!result.status.ok()) {
      Leave(sequence);
      Refusal refusal = Fail(sequence, result.status);
      if (asked) AnswerRefused(sequence, std::move(refusal));
      continue;
    }
    if (asked && sequence.stepped()->wanted().total() == 0) {
      AnswerDrafted(sequence, EndBlock(sequence));
    }
    JoinOrLeave(sequence);
  }
  return true;
}

void DraftExecutor::JoinOrLeave(const Sequence& sequence) {
  SteppedDrafter* drafter = sequence.stepped();
  if (drafter == nullptr) return;
  if (drafter->wanted().total() == 0) {
    Leave(sequence);
    return;
  }
  if (at_work_.contains(sequence.id)) return;
  Sequence* at_work = table_.Find(sequence.stream, sequence.name);
  at_work_.emplace(sequence.id, at_work);
  const auto [batcher, is_new] =
      batchers_.try_emplace(&drafter->model(), drafter->model(), options_.step_rows, clock_);
  batcher->second.Join({.group = table_.FindStream(sequence.stream)->group,
                        .id = sequence.id,
                        .weight = sequence.weight,
                        .drafter = drafter});
}

void DraftExecutor::Leave(const Sequence& sequence) {
  if (at_work_.erase(sequence.id) == 0) return;
  batchers_.at(&sequence.stepped()->model()).Leave(sequence.id);
}

void DraftExecutor::AnswerDrafted(Sequence& sequence, const DraftedBlock& drafted) {
  sequence.last_round = sequence.unanswered->round;
  Answer(sequence, DraftedReply(sequence.name, sequence.unanswered->round, ++sequence.last_block,
                                drafted, options_.vocabulary_size));
}

void DraftExecutor::AnswerRefused(Sequence& sequence, Refusal refusal) {
  Answer(sequence, RefusedBlock(sequence.name, sequence.unanswered->round, std::move(refusal)));
}

void DraftExecutor::Answer(Sequence& sequence, v1::Block block) {
  const Unanswered advance = *std::exchange(sequence.unanswered, std::nullopt);
  --table_.FindStream(sequence.stream)->unanswered;
  Send(sequence.stream, std::move(block), Ended(sequence, advance));
}

void DraftExecutor::DropUnanswered(const Sequence& sequence) {
  if (!sequence.unanswered.has_value()) return;
  EndedAdvance advance = Ended(sequence, *sequence.unanswered);
  advance.ended = clock_.Now();
  observer_.OnEnded(advance);
}

DraftedBlock DraftExecutor::EndBlock(Sequence& sequence) {
  const absl::Duration began = clock_.Now();
  DraftedBlock drafted = sequence.stepped()->EndBlock();
  sequence.unanswered->computed += clock_.Now() - began;
  return drafted;
}

// A drafter that failed may hold anything, so its sequence ends with it.
Refusal DraftExecutor::Fail(Sequence& sequence, const absl::Status& status) {
  TANDEM_LOG(kError) << base::LogFields("drafter_failed")
                            .Add("drafter", sequence.drafter_name)
                            .Add("status", status.ToString());
  Refusal refusal = messages::MakeRefusal(v1::STATUS_INTERNAL, status.ToString());
  table_.SetProblem(sequence, refusal);
  return refusal;
}

void DraftExecutor::Send(StreamId stream, v1::Block block, EndedAdvance advance) {
  advance.status = block.status();
  advance.drafted = static_cast<uint32_t>(block.tokens_size());
  advance.ended = clock_.Now();
  block.set_computed_us(static_cast<uint64_t>(absl::ToInt64Microseconds(advance.computed)));
  block.set_queued_us(static_cast<uint64_t>(absl::ToInt64Microseconds(advance.queued())));
  observer_.OnEnded(advance);  // before the Block: who has that finds its span
  Report();
  *block.mutable_load() = load_.Snapshot();
  v1::DraftReply reply;
  *reply.mutable_block() = std::move(block);
  table_.FindStream(stream)->sink->Send(std::move(reply));  // false: its end is on its way
}

void DraftExecutor::EndFinished() {
  for (StreamId id : table_.FinishedStreams()) {
    table_.FindStream(id)->sink->Close(absl::OkStatus());
    EraseStream(id);
  }
  if (draining_) HandOver(table_.IdleStreams());
}

// Whoever is told so opens at another draft at once, and has it ready at the next round. To wait for the end of
// its requests would be no better for them: a draft's state is cheap to build anew.
void DraftExecutor::HandOver(const std::vector<StreamId>& streams) {
  for (StreamId id : streams) {
    table_.FindStream(id)->sink->Close(
        absl::UnavailableError("the draft is shutting down: open at another one"));
    EraseStream(id);
  }
}

void DraftExecutor::Report() {
  active_sequences_ = table_.live();
  int64_t rows = 0;
  for (const auto& [model, batcher] : batchers_) rows += batcher.waiting_rows();
  const size_t free = draining_ ? 0 : options_.max_sequences - table_.live();
  load_.SetWaiting(static_cast<uint32_t>(free),
                   static_cast<uint32_t>(std::clamp<int64_t>(rows, 0, UINT32_MAX)));
}

}  // namespace tandem::draft_service
