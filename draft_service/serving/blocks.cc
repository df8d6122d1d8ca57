#include "draft_service/serving/blocks.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace tandem::draft_service {

using messages::Invalid;
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

Blocks::Blocks(uint32_t vocabulary_size, const concurrency::Clock& clock, Streams& streams,
               Answers& answers, Sequences& sequences, Passes& passes, PreparedBlocks& prepared)
    : vocabulary_size_(vocabulary_size),
      clock_(clock),
      streams_(streams),
      answers_(answers),
      sequences_(sequences),
      passes_(passes),
      prepared_(prepared) {}

void Blocks::Begin(AdvanceArrives event) {
  EndedAdvance ended{.trace = event.trace, .arrived = event.arrived};
  Stream* const stream = streams_.Find(event.stream);
  if (stream == nullptr) return answers_.Drop(ended);
  stream->Owe();
  Sequence* sequence = sequences_.Find(event.stream, event.sequence);
  if (sequence != nullptr) ended.drafter = sequence->drafter_name;
  std::optional<Refusal> refusal;
  if (auto* invalid = std::get_if<Refusal>(&event.advance)) {
    refusal = std::move(*invalid);
  } else if (stream->handed_over) {
    refusal = messages::MakeRefusal(internal::v1::STATUS_DRAINING,
                                    "the draft is shutting down: open at another one");
  } else if (sequence == nullptr) {
    refusal = Invalid("sequence", "this sequence is not open: send Open first");
  } else if (sequence->unanswered.has_value()) {
    refusal = Invalid("sequence", "its last Advance is still unanswered: send one at a time");
  } else {
    const auto& advance = std::get<CheckedAdvance>(event.advance);
    const concurrency::Instant began = clock_.Now();
    refusal = Accept(*sequence, advance, event.arrived);
    if (!refusal.has_value()) {
      sequence->unanswered = Unanswered{.round = advance.round,
                                        .arrived = event.arrived,
                                        .wanted_within = advance.wanted_within,
                                        .max_draft_tokens = advance.max_draft_tokens,
                                        .max_nodes = advance.max_nodes,
                                        .min_confidence = advance.min_confidence,
                                        .max_outcomes = advance.max_outcomes,
                                        .trace = event.trace};
      return Propose(*sequence, began);
    }
  }
  if (const auto* advance = std::get_if<CheckedAdvance>(&event.advance)) {
    ended.max_draft_tokens = advance->max_draft_tokens;
  }
  answers_.Put(*stream, RefusedBlock(event.sequence, event.round, *std::move(refusal)), ended);
}

std::optional<Refusal> Blocks::Accept(Sequence& sequence, const CheckedAdvance& advance,
                                      concurrency::Instant arrived) {
  if (sequence.problem.has_value()) return sequence.problem;
  prepared_.End(sequence);
  if (sequence.notice.has_value()) return std::exchange(sequence.notice, std::nullopt);
  if (clock_.Now() - arrived >= advance.wanted_within) {
    return messages::MakeRefusal(
        internal::v1::STATUS_EXPIRED,
        absl::StrCat("nobody waits for it after ", absl::FormatDuration(advance.wanted_within)));
  }
  if (sequence.last_round.has_value() && advance.round <= *sequence.last_round) {
    return messages::MakeRefusal(
        internal::v1::STATUS_STALE,
        absl::StrCat("round ", *sequence.last_round, " was answered already"));
  }
  if (advance.max_nodes > sequence.max_nodes) {
    return Invalid(
        "shape.max_nodes",
        absl::StrCat(advance.max_nodes, " is above options.max_nodes, ", sequence.max_nodes));
  }
  if (advance.min_confidence > 0 && !sequence.values_may_decide) {
    return Invalid(
        "shape.min_confidence",
        "this sequence's draft tokens are drawn from a q, so their values must not decide where a "
        "block ends: send 0, or use rule greedy or coupled");
  }
  std::optional<Refusal> refusal = sequences_.Accept(sequence, advance.prefix);
  if (sequence.problem.has_value()) passes_.Leave(sequence);  // it failed while it read ahead
  return refusal;
}

void Blocks::Propose(Sequence& sequence, concurrency::Instant began) {
  const BlockShape shape{
      .max_draft_tokens = sequence.unanswered->max_draft_tokens,
      .max_nodes = sequence.unanswered->max_nodes,
      .min_confidence = sequence.unanswered->min_confidence,
      .max_outcomes = sequence.values_may_decide ? sequence.unanswered->max_outcomes : 0};
  if (ForwardDrafter* forward_drafter = sequence.forward_drafter()) {
    forward_drafter->BeginBlock(shape);
    sequence.unanswered->computed = clock_.Now() - began;
    if (forward_drafter->wanted().total() == 0) AnswerDrafted(sequence, EndBlock(sequence));
    passes_.JoinOrLeave(sequence);
    return;
  }
  absl::StatusOr<CandidateTree> drafted = shape.max_nodes > 0
                                              ? sequence.drafter->ProposeTree(shape)
                                              : sequence.drafter->Propose(shape.max_draft_tokens);
  sequence.unanswered->computed = clock_.Now() - began;
  if (!drafted.ok()) return Refuse(sequence, sequences_.Fail(sequence, drafted.status()));
  TANDEM_CHECK(drafted->size() <= std::max(shape.max_draft_tokens, shape.max_nodes));
  TANDEM_CHECK(drafted->depth() <= shape.max_draft_tokens);
  AnswerDrafted(sequence, *std::move(drafted));
}

void Blocks::CutLate() {
  for (Sequence* sequence : passes_.Late()) {
    CandidateTree drafted = EndBlock(*sequence);
    if (drafted.empty()) {
      const absl::Duration within = sequence->unanswered->wanted_within;
      Refuse(*sequence, messages::MakeRefusal(internal::v1::STATUS_EXPIRED,
                                              absl::StrCat("nothing was drafted within ",
                                                           absl::FormatDuration(within))));
    } else {
      AnswerDrafted(*sequence, std::move(drafted));
    }
    passes_.JoinOrLeave(*sequence);
  }
}

void Blocks::OnPassEnded(const EndedPass& pass) {
  for (const EndedPass::Member& member : pass.members) {
    Sequence& sequence = *member.sequence;
    const bool asked = sequence.unanswered.has_value();
    if (asked) {
      sequence.unanswered->computed += pass.time;
      sequence.unanswered->drafted += member.drafted ? 1 : 0;
    }
    if (!member.status.ok()) {
      passes_.Leave(sequence);
      prepared_.End(sequence);
      Refusal refusal = sequences_.Fail(sequence, member.status);
      if (asked) Refuse(sequence, std::move(refusal));
      continue;
    }
    const bool whole = sequence.forward_drafter()->wanted().total() == 0;
    if (asked && whole) AnswerDrafted(sequence, EndBlock(sequence));
    if (!asked && whole) prepared_.Send(sequence);
    passes_.JoinOrLeave(sequence);
  }
}

CandidateTree Blocks::EndBlock(Sequence& sequence) {
  const concurrency::Instant began = clock_.Now();
  CandidateTree drafted = sequence.forward_drafter()->EndBlock();
  sequence.unanswered->computed += clock_.Now() - began;
  return drafted;
}

void Blocks::AnswerDrafted(Sequence& sequence, CandidateTree drafted) {
  sequence.last_round = sequence.unanswered->round;
  drafted.id = base::Advance(sequence.last_block);
  const Unanswered advance = *sequence.unanswered;
  Answer(sequence, DraftedReply(sequence.name, advance.round, drafted, vocabulary_size_));
  prepared_.Begin(sequence, advance, drafted);
}

void Blocks::Refuse(Sequence& sequence, Refusal refusal) {
  Answer(sequence, RefusedBlock(sequence.name, sequence.unanswered->round, std::move(refusal)));
}

void Blocks::Answer(Sequence& sequence, internal::v1::Block block) {
  const Unanswered advance = *std::exchange(sequence.unanswered, std::nullopt);
  EndedAdvance ended = Ended(sequence, advance);
  if (sequence.drafter != nullptr) ended.recalled = sequence.drafter->TakeRecalled();
  answers_.Put(streams_.At(sequence.stream), std::move(block), ended);
}

void Blocks::Drop(Sequence& sequence) {
  if (!sequence.unanswered.has_value()) return;
  const Unanswered advance = *std::exchange(sequence.unanswered, std::nullopt);
  answers_.Drop(Ended(sequence, advance));
}

}  // namespace tandem::draft_service
