// The passes of the device's thread: choose, step the model, judge.
#include <algorithm>
#include <string>
#include <utility>

#include "common/config/check.h"
#include "common/config/log.h"
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
    parts.push_back(
        {work.plan.sequence->cache.get(),
         absl::MakeConstSpan(work.plan.tokens).subspan(work.done, static_cast<size_t>(grant.rows)),
         last ? grant.rows - work.plan.verify_rows : grant.rows});
    pass_rows += static_cast<uint32_t>(grant.rows);
  }
  absl::StatusOr<model::Logits> logits = model_->Step(parts);
  ++passes_;
  pass_rows_ += pass_rows;
  pass_sequences_ += grants.size();
  const absl::Duration computed = clock_.Now() - began;
  busy_ += computed;
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
    work.plan.sequence->held.Append(parts[i].tokens);
    work.done += parts[i].tokens.size();
    work.computed += computed;
    work.verdict.set_pass_id(passes_);
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
  *streams_.at(work.stream)->outgoing.add_verdicts() = std::move(verdict);
}

}  // namespace tandem::target_service
