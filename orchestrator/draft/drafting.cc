#include "orchestrator/draft/drafting.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "orchestrator/draft/average.h"

namespace tandem::orchestrator {
namespace {

constexpr double kMinPatience = 1.0 / 16;

Drafted Without(PlainCause cause) { return {{}, cause}; }

}  // namespace

Drafting::Drafting(const SampleRequest& request, const LoopOptions& options,
                   const CommittedTokens& committed, DraftSession* session, LoopTimers& timers,
                   const concurrency::Clock& clock, RoundObserver& observer)
    : request_(request),
      committed_(committed),
      timers_(timers),
      clock_(clock),
      link_(request, options, committed, session, timers, clock, observer) {}

void Drafting::Close() {
  link_.Close();
  prepared_.Clear();
  timers_.Cancel(LoopTimer::kDraftDeadline);
  waiting_ = false;
}

std::optional<Drafted> Drafting::Ask(const DraftLink::Wanted& wanted, absl::Duration wait) {
  TANDEM_CHECK(wanted.max_draft_tokens > 0 && !waiting_);
  if (auto prepared = TakePrepared(wanted)) return prepared;
  link_.GiveUpIfSilent();
  if (const auto cause = link_.absent()) return Without(*cause);
  const bool opens = link_.state() == DraftLink::State::kOpening;
  if (link_.state() == DraftLink::State::kAsked || (opens && late_attempt_ == link_.attempt())) {
    return Without(PlainCause::kDraftLate);
  }
  waiting_ = true;
  wanted_ = wanted;
  wait *= patience_;
  deadline_ = clock_.Now() + wait;
  timers_.Set(LoopTimer::kDraftDeadline, wait);
  return opens ? std::nullopt : SendAdvance();
}

std::optional<Drafted> Drafting::TakePrepared(const DraftLink::Wanted& wanted) {
  PreparedBlocks::Taken taken = prepared_.Take(committed_.size());
  const bool may = wanted.max_outcomes > 0 && link_.state() == DraftLink::State::kReady &&
                   link_.limits().prepares;
  prepared_use_ = may ? taken.use : PreparedUse::kNone;
  prepared_by_ = asked_;
  if (prepared_use_ != PreparedUse::kHit) return std::nullopt;
  link_.TookPrepared();
  taken.block.Truncate(std::min<size_t>(taken.block.size(), wanted.max_draft_tokens));
  return Drafted{std::move(taken.block), std::nullopt};
}

void Drafting::Record(RoundRecord& round) const {
  round.prepared = prepared_use_;
  if (prepared_use_ == PreparedUse::kNone) return;
  round.prepared_tokens = prepared_by_.max_draft_tokens;
  round.prepared_outcomes = prepared_by_.max_outcomes;
  round.verified_in = decided_at_ - submitted_at_;
  round.prepared_in = prepared_in_;
}

void Drafting::Submitted(const CandidateTree& block) {
  submitted_at_ = clock_.Now();
  prepared_in_.reset();
  prepared_.Begin(block.id, committed_.size());
  link_.Submitted(block);
}

void Drafting::Decided(const BlockOutcome& outcome) {
  decided_at_ = clock_.Now();
  prepared_.Decided(outcome);
  link_.Decided(outcome);
}

void Drafting::OnPrepared(base::DraftAttempt attempt, std::vector<PreparedBlock> prepared) {
  if (attempt != link_.attempt()) return;
  const bool first = prepared_.blocks().empty();
  for (PreparedBlock& one : prepared) prepared_.Add(std::move(one));
  if (first && !prepared_.blocks().empty()) prepared_in_ = clock_.Now() - submitted_at_;
}

// Returns an answer if the draft's context has no room for a draft token although the target's has.
std::optional<Drafted> Drafting::SendAdvance() {
  const DraftLimits& limits = link_.limits();
  uint32_t max = wanted_.max_draft_tokens;
  if (limits.max_draft_tokens > 0) max = std::min(max, limits.max_draft_tokens);
  if (limits.context_length > 0) {
    const uint32_t room =
        limits.context_length - std::min(limits.context_length, committed_.size());
    max = std::min(max, room);
  }
  if (max == 0) return Answer(Without(PlainCause::kPolicyZero));
  const absl::Duration left = deadline_ - clock_.Now();
  const absl::Duration wanted_within =
      std::max(left - std::min(on_the_way_, left / 2), absl::Microseconds(1));
  asked_ = {.max_draft_tokens = max,
            .max_nodes = std::min(wanted_.max_nodes, limits.max_nodes),
            .min_confidence = wanted_.min_confidence,
            .max_outcomes = wanted_.max_outcomes};
  if (!link_.Ask(asked_, wanted_within, left)) return Answer(Without(PlainCause::kPolicyZero));
  return std::nullopt;
}

void Drafting::Refused() {
  if (link_.state() != DraftLink::State::kReady) return;
  link_.GiveUp(DraftLoss::kLost, PlainCause::kDraftInvalid);
}

std::optional<Drafted> Drafting::OnOpened(base::DraftAttempt attempt, const DraftLimits& limits) {
  if (!link_.OnOpened(attempt, limits)) return std::nullopt;
  prepared_.Clear();  // ids of blocks begin anew
  return waiting_ ? SendAdvance() : std::nullopt;
}

std::optional<Drafted> Drafting::OnBlock(base::DraftAttempt attempt, DraftReplyBlock reply) {
  const std::optional<absl::Duration> took = link_.OnAnswer(attempt, reply.round);
  if (!took.has_value()) return std::nullopt;
  const absl::Duration at_draft = reply.at_draft;
  const absl::Duration queued = reply.queued;
  // This is the network time of both ways and all else that the draft does not see. It only
  // shortens the time that the draft is given, so the draft's report need not be true.
  Average(on_the_way_, std::max(*took - at_draft, absl::ZeroDuration()));
  if (waiting_ && reply.status == DraftReplyBlock::Status::kOk) {
    patience_ = std::min(1.0, 2 * patience_);
  }
  Drafted drafted = Judge(std::move(reply));
  drafted.at_draft = at_draft;
  drafted.queued = queued;
  return Answer(std::move(drafted));
}

Drafted Drafting::Judge(DraftReplyBlock reply) {
  using Status = DraftReplyBlock::Status;
  switch (reply.status) {
    case Status::kOk:
      return JudgeBlock(std::move(reply));
    case Status::kNeedPrefix:
      link_.HoldsOnly(reply.held);
      return Without(PlainCause::kDraftStale);
    case Status::kStale:
      link_.HoldsOnly(0);
      return Without(PlainCause::kDraftStale);
    case Status::kExpired:
      return Without(PlainCause::kDraftLate);
    case Status::kNoSlot:
      return GiveUp(DraftLoss::kLost, PlainCause::kDraftLost, reply.retry_after);
    case Status::kRefused:
      return GiveUp(DraftLoss::kRefused, PlainCause::kDraftRefused);
    case Status::kGone:
      return GiveUp(DraftLoss::kLost, PlainCause::kDraftLost);
  }
  return Without(PlainCause::kDraftInvalid);
}

// Its parents are valid. A tree has siblings that are different tokens, and no q.
bool Drafting::FitsShape(const CandidateTree& block) const {
  if (block.is_chain()) return block.size() <= asked_.max_draft_tokens;
  return block.size() <= asked_.max_nodes && block.depth() <= asked_.max_draft_tokens &&
         block.q.empty() && block.EqualSibling() == block.size();
}

Drafted Drafting::JudgeBlock(DraftReplyBlock reply) {
  const bool answers = reply.block.has_valid_parents() && reply.round == link_.round();
  // This loop did not ask for such a block, but sending it is not a fault of the draft. The round
  // goes on without it, and the draft stays.
  const bool served = asked_.max_nodes > 0 ? reply.is_whole : reply.is_whole_chain();
  if (answers && !served) {
    if (!std::exchange(unserved_logged_, true)) {
      TANDEM_LOG(kWarning) << base::LogFields("block_unserved")
                                  .Add("id", request_->id)
                                  .Add("message", reply.message);
    }
    return Without(PlainCause::kDraftInvalid);
  }
  CandidateTree& block = reply.block;
  const bool good = answers && FitsShape(block) && (block.empty() || block.id != base::BlockId()) &&
                    block.has_valid_q_count();
  if (!good) return GiveUp(DraftLoss::kLost, PlainCause::kDraftInvalid);
  if (block.empty()) return Without(PlainCause::kDraftEmpty);
  // An invalid q is checked as one-hot by the target, token by token. A q that is too large for the
  // wire is emptied here, with the same effect. The tokens play no part: an id that the target does
  // not know stays in the block and has p = 0.
  for (sampling::SparseDistribution& q : block.q) {
    if (q.ids.size() != q.weights.size() || q.ids.size() > sampling::kMaxSparseEntries) q = {};
  }
  return {std::move(block), std::nullopt};
}

Drafted Drafting::GiveUp(DraftLoss loss, PlainCause cause, absl::Duration at_least) {
  link_.GiveUp(loss, cause, at_least);
  return Without(cause);
}

std::optional<Drafted> Drafting::OnLost(base::DraftAttempt attempt, DraftLoss loss) {
  const std::optional<PlainCause> cause = link_.OnLost(attempt, loss);
  return cause.has_value() ? Answer(Without(*cause)) : std::nullopt;
}

std::optional<Drafted> Drafting::OnDeadline() {
  if (!waiting_) return std::nullopt;
  late_attempt_ = link_.attempt();
  patience_ = std::max(patience_ / 2, kMinPatience);
  return Answer(Without(PlainCause::kDraftLate));
}

std::optional<Drafted> Drafting::Answer(Drafted drafted) {
  if (!std::exchange(waiting_, false)) return std::nullopt;
  timers_.Cancel(LoopTimer::kDraftDeadline);
  return drafted;
}

}  // namespace tandem::orchestrator
