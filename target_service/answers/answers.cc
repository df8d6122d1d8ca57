#include "target_service/answers/answers.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/acceptance/rule.h"
#include "common/acceptance/tree.h"
#include "common/messages/limits.h"
#include "common/messages/logprobs.h"

namespace tandem::target_service {
namespace {

// Of the verdicts of one message; the rest is for the load and the framing. One verdict alone is
// far below it.
constexpr size_t kMaxVerdictBytes = messages::kMaxMessageBytes - (64 << 10);

internal::v1::Verdict RefusedVerdict(SequenceId sequence, uint64_t round,
                                     messages::Refusal refusal) {
  internal::v1::Verdict verdict;
  verdict.set_sequence(base::Number(sequence));
  verdict.set_round(round);
  verdict.set_status(refusal.status);
  *verdict.mutable_problem() = std::move(refusal.problem);
  return verdict;
}

void AddEntries(const PartResult& result, internal::v1::Verdict& verdict) {
  for (size_t i = 0; i < result.entries.size(); ++i) {
    const acceptance::Entry& entry = result.entries[i];
    internal::v1::Entry* sent = verdict.add_entries();
    sent->set_accept_probability(entry.accept_probability);
    if (entry.next_token.has_value()) sent->set_next_token(*entry.next_token);
    if (!result.logprobs.empty()) {
      *sent->mutable_logprobs() = messages::ToWire(result.logprobs[i]);
    }
  }
}

// How a block ended that was judged by a rule whose tests are certain.
std::optional<Sequence::Outcome> OutcomeOf(const Work& work, const PartResult& result) {
  const speculation::CandidateTree& block = work.step.block;
  const acceptance::Rule rule = work.plan.sequence->settings->rule;
  if (!acceptance::HasTrees(rule) || !block.parents.empty()) return std::nullopt;
  const acceptance::Decision decision =
      acceptance::Decide(rule, result.entries, std::vector<double>(block.size()));
  return Sequence::Outcome{work.step.committed(), decision.accepted, decision.next_token};
}

void SendVerdicts(Stream& stream, internal::v1::Verdicts verdicts, v1::Load load) {
  *verdicts.mutable_load() = std::move(load);
  internal::v1::TargetReply reply;
  *reply.mutable_verdicts() = std::move(verdicts);
  stream.sink->Send(std::move(reply));  // false: the stream is over, and its end is on its way
}

}  // namespace

void Answers::Refuse(Work& work, messages::Refusal refusal) {
  if (work.answered) return;
  if (work.plan.sequence != nullptr) work.plan.sequence->busy = false;
  work.answered = true;
  Put(streams_.At(work.stream),
      RefusedVerdict(work.step.sequence, work.step.round, std::move(refusal)), work.step.trace,
      work.arrived, &work);
}

void Answers::Refuse(Stream& stream, RefusedStep step, concurrency::Instant arrived) {
  Put(stream, RefusedVerdict(step.sequence, step.round, std::move(step.refusal)), step.trace,
      arrived, /*work=*/nullptr);
}

void Answers::RefuseExpired(Work& work) {
  Refuse(work, messages::MakeRefusal(internal::v1::STATUS_EXPIRED,
                                     absl::StrCat("the ", absl::FormatDuration(work.step.remaining),
                                                  " that were left had passed before work began")));
}

void Answers::Fail(Work& work, std::string message) {
  Refuse(work, messages::MakeRefusal(internal::v1::STATUS_INTERNAL, std::move(message)));
  table_.Erase(work.stream, work.step.sequence);
}

bool Answers::AddResult(Work& work, const PartResult& result) {
  if (!result.status.ok()) {
    Fail(work, std::string(result.status.message()));
    return false;
  }
  for (const sampling::NodeLogprobs& logprobs : result.prompt_logprobs) {
    *work.verdict.add_prompt_logprobs() = messages::ToWire(logprobs);
  }
  if (work.left() > 0) return false;
  Complete(work, result);
  return !work.step.more;
}

void Answers::Complete(Work& work, const PartResult& result) {
  internal::v1::Verdict& verdict = work.verdict;
  Sequence& sequence = *work.plan.sequence;
  if (!work.step.more) {
    AddEntries(result, verdict);
    sequence.last_round = work.step.round;
    sequence.outcome = OutcomeOf(work, result);
    sequence.answered_before = std::exchange(sequence.answered_at, clock_.Now());
  }
  verdict.set_status(internal::v1::STATUS_OK);
  verdict.set_one_hot_candidates(work.step.one_hot_candidates);
  verdict.set_cached_tokens(work.plan.cached_tokens);
  verdict.set_queued_us(
      static_cast<uint64_t>(absl::ToInt64Microseconds(work.began - work.arrived)));
  verdict.set_computed_us(static_cast<uint64_t>(absl::ToInt64Microseconds(work.computed)));
  verdict.set_prefill_us(static_cast<uint64_t>(absl::ToInt64Microseconds(work.prefill)));
  sequence.busy = false;
  work.answered = true;
  Put(streams_.At(work.stream), std::move(verdict), work.step.trace, work.arrived, &work);
}

void Answers::Put(Stream& stream, internal::v1::Verdict verdict,
                  const std::optional<telemetry::SpanContext>& trace, concurrency::Instant arrived,
                  const Work* work) {
  stream.Pay();
  observer_.StepAnswered({verdict, trace, arrived, work});
  *stream.outgoing.add_verdicts() = std::move(verdict);
}

void Answers::Send(absl::FunctionRef<v1::Load(Stream& stream)> load_for) {
  const concurrency::Instant now = clock_.Now();
  streams_.ForEach([&](Stream& stream) {
    const bool quiet = stream.owed > 0 && now - stream.quiet_since >= kQuiet;
    if (stream.outgoing.verdicts_size() == 0 && !quiet) return;
    stream.quiet_since = now;
    internal::v1::Verdicts message;
    size_t bytes = 0;
    for (internal::v1::Verdict& verdict : *stream.outgoing.mutable_verdicts()) {
      const size_t more = verdict.ByteSizeLong();
      if (bytes > 0 && bytes + more > kMaxVerdictBytes) {
        SendVerdicts(stream, std::exchange(message, {}), load_for(stream));
        bytes = 0;
      }
      bytes += more;
      *message.add_verdicts() = std::move(verdict);
    }
    SendVerdicts(stream, std::move(message), load_for(stream));
    stream.outgoing.Clear();
  });
}

}  // namespace tandem::target_service
