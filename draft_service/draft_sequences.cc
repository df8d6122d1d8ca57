// What comes from sessions: sequences begin, accept, propose and end.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "draft_service/block_reply.h"
#include "draft_service/draft_executor.h"

namespace tandem::draft_service {

using messages::Invalid;
using messages::Refusal;

namespace {

// Sequences that could not be opened are kept to tell why; beyond so many the client is told that
// they are not open.
constexpr size_t kMaxRemembered = 65536;
constexpr absl::Duration kRetryAfter = absl::Milliseconds(50);

}  // namespace

void DraftExecutor::TakeIn(DraftEvent event) {
  std::visit([this](auto& alternative) { TakeIn(std::move(alternative)); }, event);
}

void DraftExecutor::TakeIn(StreamBegins event) {
  table_.AddStream(event.stream, std::move(event.sink), event.client_id);
}

void DraftExecutor::TakeIn(OpenArrives event) {
  if (table_.FindStream(event.stream) == nullptr) return;
  if (Sequence* held = table_.Find(event.stream, event.sequence)) {
    if (!held->problem.has_value()) {
      held->notice = Invalid("open.sequence", "this sequence is open already: close it first");
      return;
    }
    Erase(*held);
  }
  if (table_.size() >= kMaxRemembered) return;
  const size_t live = table_.live();
  Sequence& sequence = table_.Add(event.stream, event.sequence);
  if (auto* refusal = std::get_if<Refusal>(&event.open)) {
    refusal->problem.set_field(absl::StrCat("open.", refusal->problem.field()));
    table_.SetProblem(sequence, std::move(*refusal));
  } else if (draining_) {
    table_.SetProblem(
        sequence, messages::MakeRefusal(v1::STATUS_DRAINING,
                                        "the service is shutting down and takes no new sequence"));
  } else if (live >= options_.max_sequences) {
    table_.SetProblem(sequence,
                      messages::NoSlot(kRetryAfter, absl::StrCat("all ", options_.max_sequences,
                                                                 " sequences are taken")));
  } else {
    OpenSequence(sequence, std::get<CheckedOpen>(event.open));
  }
}

void DraftExecutor::TakeIn(AdvanceArrives event) {
  EndedAdvance ended{.trace = event.trace, .arrived = event.arrived};
  Stream* stream = table_.FindStream(event.stream);
  if (stream == nullptr) {
    ended.ended = clock_.Now();
    observer_.OnEnded(ended);
    return;
  }
  Sequence* sequence = table_.Find(event.stream, event.sequence);
  if (sequence != nullptr) ended.drafter = sequence->drafter_name;
  std::optional<Refusal> refusal;
  if (auto* invalid = std::get_if<Refusal>(&event.advance)) {
    refusal = std::move(*invalid);
  } else if (sequence == nullptr) {
    refusal = Invalid("sequence", "this sequence is not open: send Open first");
  } else if (sequence->unanswered.has_value()) {
    refusal = Invalid("sequence", "its last Advance is still unanswered: send one at a time");
  } else {
    const auto& advance = std::get<CheckedAdvance>(event.advance);
    const absl::Duration began = clock_.Now();
    refusal = BeginAdvance(*sequence, advance, event.arrived);
    if (!refusal.has_value()) {
      sequence->unanswered = Unanswered{.round = advance.round,
                                        .arrived = event.arrived,
                                        .wanted_within = advance.wanted_within,
                                        .max_draft_tokens = advance.max_draft_tokens,
                                        .trace = event.trace};
      ++stream->unanswered;
      ProposeAtOnce(*sequence, began);
      return;
    }
  }
  if (const auto* advance = std::get_if<CheckedAdvance>(&event.advance)) {
    ended.max_draft_tokens = advance->max_draft_tokens;
  }
  Send(event.stream, RefusedBlock(event.sequence, event.round, *std::move(refusal)), ended);
}

void DraftExecutor::TakeIn(CloseArrives event) {
  Sequence* sequence = table_.Find(event.stream, event.sequence);
  if (sequence == nullptr) return;
  Leave(*sequence);
  if (sequence->unanswered.has_value()) {
    AnswerRefused(*sequence, messages::MakeRefusal(v1::STATUS_CLOSED, "its sequence was closed"));
  }
  Erase(*sequence);
}

void DraftExecutor::TakeIn(StreamFinishes event) { table_.MarkFinishing(event.stream); }

void DraftExecutor::TakeIn(StreamEnds event) { EraseStream(event.stream); }

void DraftExecutor::TakeIn(AllEnd) { HandOver(table_.AllStreams()); }

void DraftExecutor::Erase(Sequence& sequence) {
  Leave(sequence);
  table_.Erase(sequence);
}

void DraftExecutor::EraseStream(StreamId id) {
  Stream* stream = table_.FindStream(id);
  if (stream == nullptr) return;
  while (!stream->sequences.empty()) {
    Sequence& sequence = *table_.Find(id, *stream->sequences.begin());
    DropUnanswered(sequence);
    Erase(sequence);
  }
  table_.EraseStream(id);
}

void DraftExecutor::OpenSequence(Sequence& sequence, const CheckedOpen& open) {
  sequence.weight = 1 + static_cast<int>(open.priority);
  if (auto problem = MakeDrafter(sequence, open)) {
    table_.SetProblem(sequence, *std::move(problem));
    return;
  }
  if (open.prefix.keep() == 0 && open.prefix.tokens().empty()) return;
  // A prefix that does not fit is left unread; the first Advance is told so by its own.
  const speculation::PrefixMatch match = sequence.committed.Match(open.prefix);
  if (match.refusal.has_value()) return;
  if (absl::Status status = AcceptPrefix(sequence, open.prefix, 0); !status.ok()) {
    Fail(sequence, status);
    return;
  }
  JoinOrLeave(sequence);
}

std::optional<Refusal> DraftExecutor::MakeDrafter(Sequence& sequence, const CheckedOpen& open) {
  const std::string& name = !open.drafter.empty()              ? open.drafter
                            : options_.default_drafter.empty() ? options_.drafters.front().name
                                                               : options_.default_drafter;
  auto factory = std::find_if(options_.drafters.begin(), options_.drafters.end(),
                              [&name](const DrafterFactory& other) { return other.name == name; });
  if (factory == options_.drafters.end()) {
    auto print = [](std::string* out, const DrafterFactory& other) { out->append(other.name); };
    return Invalid(
        "open.drafter",
        absl::StrCat("\"", name, "\" is none of: ", absl::StrJoin(options_.drafters, ", ", print)));
  }
  sequence.drafter_name = name;
  if (open.settings.proposal == Proposal::kSampled && !factory->samples) {
    return Invalid("open.proposal",
                   absl::StrCat("drafter \"", name,
                                "\" cannot send a q that it draws from: ask for "
                                "PROPOSAL_GREEDY, for none, or for a drafter with a model"));
  }
  auto drafter = factory->make(open.settings);
  if (drafter.ok()) {
    sequence.drafter = *std::move(drafter);
    return std::nullopt;
  }
  std::string message(drafter.status().message());
  if (absl::IsResourceExhausted(drafter.status())) return messages::NoSlot(kRetryAfter, message);
  if (absl::IsInvalidArgument(drafter.status())) return Invalid("open.options", message);
  return Fail(sequence, drafter.status());
}

absl::Status DraftExecutor::AcceptPrefix(Sequence& sequence, const v1::Prefix& prefix,
                                         uint32_t standing) {
  // What stands beyond `keep` is not told again: the drafter keeps what it computed for it.
  const uint32_t skipped = standing - prefix.keep();
  const absl::Span<const uint32_t> tokens = absl::MakeConstSpan(prefix.tokens()).subspan(skipped);
  sequence.committed.Truncate(standing);
  sequence.committed.Append(tokens);
  return sequence.drafter->Accept(standing, tokens);
}

std::optional<Refusal> DraftExecutor::BeginAdvance(Sequence& sequence,
                                                   const CheckedAdvance& advance,
                                                   absl::Duration arrived) {
  if (sequence.problem.has_value()) return sequence.problem;
  if (sequence.notice.has_value()) return std::exchange(sequence.notice, std::nullopt);
  if (clock_.Now() - arrived >= advance.wanted_within) {
    return messages::MakeRefusal(
        v1::STATUS_EXPIRED,
        absl::StrCat("nobody waits for it after ", absl::FormatDuration(advance.wanted_within)));
  }
  if (sequence.last_round.has_value() && advance.round <= *sequence.last_round) {
    return messages::MakeRefusal(
        v1::STATUS_STALE, absl::StrCat("round ", *sequence.last_round, " was answered already"));
  }
  speculation::PrefixMatch match = sequence.committed.Match(advance.prefix);
  if (match.refusal.has_value()) return std::move(match.refusal);
  if (absl::Status status = AcceptPrefix(sequence, advance.prefix, match.standing); !status.ok()) {
    Leave(sequence);
    return Fail(sequence, status);
  }
  return std::nullopt;
}

void DraftExecutor::ProposeAtOnce(Sequence& sequence, absl::Duration began) {
  const uint32_t max_draft_tokens = sequence.unanswered->max_draft_tokens;
  if (SteppedDrafter* stepped = sequence.stepped()) {
    stepped->BeginBlock(max_draft_tokens);
    sequence.unanswered->computed = clock_.Now() - began;
    if (stepped->wanted().total() == 0) AnswerDrafted(sequence, EndBlock(sequence));
    JoinOrLeave(sequence);
    return;
  }
  absl::StatusOr<DraftedBlock> drafted = sequence.drafter->Propose(max_draft_tokens);
  sequence.unanswered->computed = clock_.Now() - began;
  if (!drafted.ok()) {
    AnswerRefused(sequence, Fail(sequence, drafted.status()));
    return;
  }
  TANDEM_CHECK(drafted->tokens.size() <= max_draft_tokens);
  AnswerDrafted(sequence, *drafted);
}

}  // namespace tandem::draft_service
