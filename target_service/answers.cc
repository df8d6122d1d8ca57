#include "target_service/answers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/messages/logprobs.h"

namespace tandem::target_service {
namespace {

v1::Verdict RefusedVerdict(uint64_t sequence, uint64_t round, messages::Refusal refusal) {
  v1::Verdict verdict;
  verdict.set_sequence(sequence);
  verdict.set_round(round);
  verdict.set_status(refusal.status);
  *verdict.mutable_problem() = std::move(refusal.problem);
  return verdict;
}

void AddEntries(const PartResult& result, v1::Verdict& verdict) {
  for (size_t i = 0; i < result.entries.size(); ++i) {
    const acceptance::Entry& entry = result.entries[i];
    v1::Entry* sent = verdict.add_entries();
    sent->set_accept_probability(entry.accept_probability);
    if (entry.next_token.has_value()) sent->set_next_token(*entry.next_token);
    if (!result.logprobs.empty()) {
      *sent->mutable_logprobs() = messages::ToWire(result.logprobs[i]);
    }
  }
}

}  // namespace

void Answers::Refuse(Work& work, messages::Refusal refusal) {
  if (work.answered) return;
  if (work.plan.sequence != nullptr) work.plan.sequence->busy = false;
  work.answered = true;
  v1::Verdict& verdict = *streams_.At(work.stream).outgoing.add_verdicts();
  verdict = RefusedVerdict(work.step.sequence, work.step.round, std::move(refusal));
  observer_.StepAnswered({verdict, work.step.trace, work.arrived, &work});
}

void Answers::Refuse(Stream& stream, RefusedStep step, concurrency::Instant arrived) {
  v1::Verdict& verdict = *stream.outgoing.add_verdicts();
  verdict = RefusedVerdict(step.sequence, step.round, std::move(step.refusal));
  observer_.StepAnswered({verdict, step.trace, arrived});
}

void Answers::RefuseExpired(Work& work) {
  Refuse(work, messages::MakeRefusal(v1::STATUS_EXPIRED,
                                     absl::StrCat("the ", absl::FormatDuration(work.step.remaining),
                                                  " that were left had passed before work began")));
}

void Answers::Fail(Work& work, std::string message) {
  Refuse(work, messages::MakeRefusal(v1::STATUS_INTERNAL, std::move(message)));
  table_.Erase(work.stream, work.step.sequence);
}

void Answers::Take(Work& work, const PartResult& result) {
  if (!result.status.ok()) {
    Fail(work, std::string(result.status.message()));
    return;
  }
  for (const sampling::NodeLogprobs& logprobs : result.prompt_logprobs) {
    *work.verdict.add_prompt_logprobs() = messages::ToWire(logprobs);
  }
  if (work.left() == 0) Complete(work, result);
}

void Answers::Complete(Work& work, const PartResult& result) {
  v1::Verdict& verdict = work.verdict;
  Sequence& sequence = *work.plan.sequence;
  if (!work.step.more) {
    AddEntries(result, verdict);
    sequence.last_round = work.step.round;
    sequence.answered_at = clock_.Now();
    gathering_.Answered(work.stream, work.step.sequence, sequence.turnaround);
  }
  verdict.set_status(v1::STATUS_OK);
  verdict.set_one_hot_candidates(work.step.one_hot_candidates);
  verdict.set_queued_us(
      static_cast<uint64_t>(absl::ToInt64Microseconds(work.began - work.arrived)));
  verdict.set_computed_us(static_cast<uint64_t>(absl::ToInt64Microseconds(work.computed)));
  sequence.busy = false;
  work.answered = true;
  observer_.StepAnswered({verdict, work.step.trace, work.arrived, &work});
  *streams_.At(work.stream).outgoing.add_verdicts() = std::move(verdict);
}

}  // namespace tandem::target_service
