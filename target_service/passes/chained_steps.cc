#include "target_service/passes/chained_steps.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/acceptance/tree.h"
#include "common/messages/refusal.h"

namespace tandem::target_service {
namespace {

messages::Refusal Stale(const char* why) {
  return messages::MakeRefusal(internal::v1::STATUS_STALE, why);
}

bool IsOf(const Work& work, serving::StreamId stream, base::SequenceId sequence) {
  return work.stream == stream && work.step.sequence == sequence;
}

}  // namespace

void ChainedSteps::Add(std::unique_ptr<Work> work) {
  const Sequence* sequence = table_.Find(work->stream, work->step.sequence);
  if (sequence == nullptr) return answers_.Refuse(*work, Stale("the sequence is not held"));
  const acceptance::Rule rule = sequence->settings->rule;
  if (!acceptance::HasTrees(rule)) {
    return answers_.Refuse(
        *work, messages::Invalid("prepared",
                                 absl::StrCat("rule ", acceptance::Name(rule),
                                              " has no chained Steps: greedy and coupled have")));
  }
  for (const auto& other : waiting_.all()) {
    if (!other->waits_for_outcome() || !IsOf(*other, work->stream, work->step.sequence)) continue;
    Decide(*other);  // a client that has read the verdict may be faster than the next pass
    if (other->answered || !other->waits_for_outcome()) continue;
    return answers_.Refuse(*work,
                           messages::Invalid("sequence", "a chained Step of it waits already"));
  }
  waiting_.RemoveAnswered();
  waiting_.Add(std::move(work));
}

void ChainedSteps::Begin() {
  for (const auto& work : waiting_.all()) {
    if (work->waits_for_outcome()) Decide(*work);
  }
  waiting_.RemoveAnswered();
}

void ChainedSteps::Decide(Work& work) {
  Sequence* const sequence = table_.Find(work.stream, work.step.sequence);
  if (sequence == nullptr || sequence->round != *work.step.after) {
    return answers_.Refuse(work, Stale("the Step before is not the sequence's last one"));
  }
  if (sequence->busy) return;
  if (!sequence->outcome.has_value()) {
    return answers_.Refuse(work, Stale("the Step before has no outcome that the target knows"));
  }
  const Sequence::Outcome& outcome = *sequence->outcome;
  auto& prepared = work.step.prepared;
  const auto chosen =
      std::find_if(prepared.begin(), prepared.end(), [&](const PreparedBlock& block) {
        return block.node == outcome.node && block.next_token == outcome.next_token;
      });
  if (chosen == prepared.end()) {
    return answers_.Refuse(work, Stale("the Step before ended otherwise than assumed"));
  }
  const uint32_t standing = outcome.committed + outcome.node;
  if (standing + 1 + chosen->block.size() > max_length_) {
    return answers_.Refuse(
        work, messages::Invalid(
                  "prepared", absl::StrCat("after ", standing + 1, " tokens ", chosen->block.size(),
                                           " draft tokens exceed ", max_length_)));
  }
  work.step.prefix = sequence->held.Extended(standing, outcome.next_token);
  work.step.block = std::move(chosen->block);
  prepared.clear();
  if (sequence->answered_at > work.arrived) {
    work.step.remaining -= sequence->answered_at - work.arrived;  // it counts from its arrival
    work.arrived = sequence->answered_at;
  }
  work.prefill = absl::ZeroDuration();
  auto plan = table_.Begin(work.stream, work.step, /*draining=*/false, clock_.Now());
  if (auto* refusal = std::get_if<messages::Refusal>(&plan)) {
    return answers_.Refuse(work, std::move(*refusal));
  }
  work.plan = std::move(std::get<StepPlan>(plan));
  // Nobody waits for the client to come back: it need not.
  gathering_.Settled(work.stream, work.step.sequence);
  work.plan.sequence->turnaround = absl::InfiniteDuration();
}

void ChainedSteps::Overrule(serving::StreamId stream, base::SequenceId sequence) {
  const Sequence* const held = table_.Find(stream, sequence);
  if (held == nullptr || !held->busy) return;
  const auto began = [&](const std::unique_ptr<Work>& work) {
    return work->step.after.has_value() && !work->waits_for_outcome() &&
           IsOf(*work, stream, sequence);
  };
  const auto find = [&] {
    const auto all = waiting_.all();
    const auto found = std::find_if(all.begin(), all.end(), began);
    return found == all.end() ? nullptr : found->get();
  };
  Work* chained = find();
  for (; chained != nullptr && chained->in_flight > 0; chained = find()) passes_.Await();
  if (chained == nullptr) return;
  answers_.Refuse(*chained, Stale("another Step of the sequence came"));
  waiting_.RemoveAnswered();
}

}  // namespace tandem::target_service
