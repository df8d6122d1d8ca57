// The passes of the device's thread: choose, step the model, judge.
#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/messages/logprobs.h"
#include "target_service/device_executor.h"
#include "target_service/judging.h"

namespace tandem::target_service {

int DeviceExecutor::ActiveStreams() const {
  const absl::Duration now = clock_.Now();
  const auto active = std::count_if(streams_.begin(), streams_.end(), [now](const auto& entry) {
    return now - entry.second->last_step < kActive;
  });
  return static_cast<int>(active);
}

// Not where the pass would have no room for those who come.
bool DeviceExecutor::Gathers() const {
  if (waiting_.empty() || clock_.Now() >= gathering_.until()) return false;
  int rows = 0;
  for (const auto& work : waiting_) rows += work->left();
  return rows < policy_.RowsAimedAt(curve_, ActiveStreams() > 1);
}

std::vector<Grant> DeviceExecutor::ChoosePass() {
  std::vector<WaitingRows> rows;
  rows.reserve(waiting_.size());
  for (const auto& work : waiting_) rows.push_back(work->waiting());
  std::vector<Grant> grants = policy_.FormPass(rows, curve_, ActiveStreams());
  TANDEM_CHECK(!grants.empty()) << waiting_.size() << " Steps wait";
  return grants;
}

bool DeviceExecutor::RunPass() {
  if (waiting_.empty()) return false;
  const std::vector<Grant> grants = ChoosePass();

  const absl::Duration began = clock_.Now();
  busy_since_ns_ = absl::ToInt64Nanoseconds(began);
  std::vector<model::StepPart> parts;
  parts.reserve(grants.size());
  uint32_t pass_rows = 0;
  for (const Grant& grant : grants) {
    Work& work = *waiting_[grant.index];
    if (!work.started()) work.began = began;
    const bool last = grant.rows == work.left();
    const int without_logits = last ? grant.rows - work.plan.verify_rows : grant.rows;
    parts.push_back(
        {work.plan.sequence->cache.get(),
         absl::MakeConstSpan(work.plan.tokens).subspan(work.done, static_cast<size_t>(grant.rows)),
         work.step.prompt_logprobs ? 0 : without_logits});
    pass_rows += static_cast<uint32_t>(grant.rows);
  }
  absl::StatusOr<model::Logits> logits = model_->Step(parts);
  ++passes_;
  pass_rows_ += pass_rows;
  pass_sequences_ += grants.size();
  const absl::Duration computed = clock_.Now() - began;
  busy_ += computed;
  observer_.PassEnds({passes_, began, computed, pass_rows, logits.status(), grants, waiting_});
  if (!logits.ok()) {
    FailPass(grants, logits.status());
    busy_since_ns_ = 0;
    return true;
  }
  curve_.Observe(static_cast<int>(pass_rows), computed);
  gathering_.PassEnds(began + computed, computed);
  int first_row = 0;
  for (size_t i = 0; i < grants.size(); ++i) {
    Work& work = *waiting_[grants[i].index];
    const int rows = grants[i].rows;
    const absl::Status taken = TakeRows(work, parts[i].tokens, *logits, first_row);
    first_row += rows - parts[i].first_logits_row;
    work.done += parts[i].tokens.size();
    work.computed += computed;
    work.verdict.set_pass_id(passes_);
    work.verdict.set_pass_rows(pass_rows);
    work.verdict.set_pass_sequences(static_cast<uint32_t>(grants.size()));
    if (!taken.ok()) {
      EndFaulty(work, taken);
    } else if (work.left() == 0) {
      Complete(work, *logits, first_row - work.plan.verify_rows);
    }
  }
  observer_.PassAnswered();
  RemoveAnswered();
  busy_since_ns_ = 0;
  return true;
}

// The caches of a failed step may hold anything, so their sequences end with it.
void DeviceExecutor::FailPass(const std::vector<Grant>& grants, const absl::Status& status) {
  TANDEM_LOG(kError) << base::LogFields("pass_failed")
                            .Add("pass", passes_)
                            .Add("sequences", grants.size())
                            .Add("status", status.ToString());
  for (const Grant& grant : grants) {
    Work& work = *waiting_[grant.index];
    AnswerRefused(work, messages::MakeRefusal(v1::STATUS_INTERNAL, status.ToString()));
    table_.Erase(work.stream, work.step.sequence);
  }
  observer_.PassAnswered();
  RemoveAnswered();
}

// What a pass computed of a Step is held from now on: `tokens`, of which the last rows have their logits
// from first_row on.
absl::Status DeviceExecutor::TakeRows(Work& work, absl::Span<const uint32_t> tokens,
                                      const model::Logits& logits, int first_row) {
  Sequence& sequence = *work.plan.sequence;
  const v1::Prefix& prefix = work.step.prefix;
  const uint32_t first = sequence.held.size();
  sequence.held.Append(tokens);
  sampling::TokenHistory* history = sequence.kept_history();
  if (history == nullptr && !work.step.prompt_logprobs) return absl::OkStatus();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const uint32_t position = first + static_cast<uint32_t>(i);
    if (position >= work.step.committed()) break;  // a candidate
    if (history != nullptr) history->Append(tokens[i]);
    const uint32_t next = position + 1;
    if (!work.step.prompt_logprobs || next == work.step.committed()) continue;
    TANDEM_ASSIGN_OR_RETURN(
        const sampling::NodeLogprobs logprobs,
        JudgePromptRow(sequence.settings, history, logits.row(first_row + static_cast<int>(i)),
                       next, prefix.tokens(static_cast<int>(next - prefix.keep())),
                       vocabulary_size_));
    *work.verdict.add_prompt_logprobs() = messages::ToWire(logprobs);
  }
  return absl::OkStatus();
}

// Nothing can be drawn from what the model gave for it.
void DeviceExecutor::EndFaulty(Work& work, const absl::Status& status) {
  AnswerRefused(work, messages::MakeRefusal(v1::STATUS_INTERNAL, std::string(status.message())));
  table_.Erase(work.stream, work.step.sequence);
}

void DeviceExecutor::Complete(Work& work, const model::Logits& logits, int first_row) {
  v1::Verdict& verdict = work.verdict;
  if (!work.step.more) {
    Sequence& sequence = *work.plan.sequence;
    const auto judgement = JudgeRows(options_.judge, sequence.settings, work.step,
                                     sequence.kept_history(), logits, first_row, vocabulary_size_);
    if (!judgement.ok()) return EndFaulty(work, judgement.status());
    for (size_t i = 0; i < judgement->entries.size(); ++i) {
      const acceptance::Entry& entry = judgement->entries[i];
      v1::Entry* sent = verdict.add_entries();
      sent->set_accept_probability(entry.accept_probability);
      if (entry.next_token.has_value()) sent->set_next_token(*entry.next_token);
      if (!judgement->logprobs.empty())
        *sent->mutable_logprobs() = messages::ToWire(judgement->logprobs[i]);
    }
    work.plan.sequence->last_round = work.step.round;
    work.plan.sequence->answered_at = clock_.Now();
    gathering_.Answered(work.stream, work.step.sequence, work.plan.sequence->turnaround);
  }
  verdict.set_status(v1::STATUS_OK);
  verdict.set_one_hot_candidates(work.step.one_hot_candidates);
  verdict.set_queued_us(
      static_cast<uint64_t>(absl::ToInt64Microseconds(work.began - work.arrived)));
  verdict.set_computed_us(static_cast<uint64_t>(absl::ToInt64Microseconds(work.computed)));
  work.plan.sequence->busy = false;
  work.answered = true;
  observer_.StepAnswered({verdict, work.step.trace, work.arrived, &work});
  *streams_.at(work.stream)->outgoing.add_verdicts() = std::move(verdict);
}

}  // namespace tandem::target_service
