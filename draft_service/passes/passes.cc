#include "draft_service/passes/passes.h"

#include <utility>

#include "common/concurrency/instant.h"

namespace tandem::draft_service {

Passes::Passes(int pass_rows, const concurrency::Clock& clock)
    : pass_rows_(pass_rows), clock_(clock) {}

void Passes::JoinOrLeave(Sequence& sequence) {
  ForwardDrafter* drafter = sequence.forward_drafter();
  if (drafter == nullptr) return;
  if (drafter->wanted().total() == 0) {
    Leave(sequence);
    return;
  }
  if (at_work_.contains(sequence.id)) return;
  const auto [builder, is_new] =
      builders_.try_emplace(&drafter->model(), drafter->model(), pass_rows_, clock_);
  at_work_[sequence.id] = {&sequence, &builder->second};
  builder->second.Join(
      {.group = sequence.group, .id = sequence.id, .weight = sequence.weight, .drafter = drafter});
}

void Passes::Leave(const Sequence& sequence) {
  const auto at_work = at_work_.find(sequence.id);
  if (at_work == at_work_.end()) return;
  at_work->second.builder->Leave(sequence.id);
  at_work_.erase(at_work);
}

std::vector<Sequence*> Passes::Late() const {
  const concurrency::Instant now = clock_.Now();
  std::map<const PassBuilder*, absl::Duration> pass_time;
  for (const auto& [model, builder] : builders_) pass_time[&builder] = builder.ExpectedTime();
  std::vector<Sequence*> late;
  for (const auto& [id, at_work] : at_work_) {
    if (!at_work.sequence->unanswered.has_value()) continue;  // reads ahead
    const Unanswered& advance = *at_work.sequence->unanswered;
    if (advance.wanted_within == absl::InfiniteDuration()) continue;
    const absl::Duration left = advance.deadline() - now;
    const bool another_is_too_late = advance.drafted > 0 && left < pass_time.at(at_work.builder);
    if (left <= absl::ZeroDuration() || another_is_too_late) late.push_back(at_work.sequence);
  }
  return late;
}

bool Passes::Run(absl::FunctionRef<void(const EndedPass&)> ended) {
  bool ran = false;
  for (auto& [model, builder] : builders_) {
    if (builder.empty()) continue;
    ended(RunOne(builder));
    ran = true;
  }
  return ran;
}

EndedPass Passes::RunOne(PassBuilder& builder) {
  const concurrency::Instant began = clock_.Now();
  PassReport report = builder.Run();
  EndedPass pass{.rows = report.rows,
                 .sequences = report.sequences,
                 .time = clock_.Now() - began,
                 .device = std::move(report.device),
                 .members = {}};
  pass.members.reserve(report.results.size());
  for (MemberResult& result : report.results) {
    pass.members.push_back(
        {at_work_.at(result.member).sequence, std::move(result.status), result.drafted});
  }
  return pass;
}

int64_t Passes::waiting_rows() const {
  int64_t rows = 0;
  for (const auto& [model, builder] : builders_) rows += builder.waiting_rows();
  return rows;
}

}  // namespace tandem::draft_service
