#include "orchestrator/verify/step_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/messages/limits.h"
#include "orchestrator/verify/target_pace.h"

namespace tandem::orchestrator {
namespace {

using Answer = StepExchange::Answer;

Answer Fault(std::string fault, LeaveCause cause = LeaveCause::kFault) {
  Answer answer;
  answer.kind = Answer::Kind::kFault;
  answer.fault = std::move(fault);
  answer.cause = cause;
  return answer;
}

Answer Fail(absl::Status status) {
  Answer answer;
  answer.kind = Answer::Kind::kFailed;
  answer.status = std::move(status);
  return answer;
}

Answer Of(Answer::Kind kind, VerifyReply reply = {}) {
  Answer answer;
  answer.kind = kind;
  answer.reply = std::move(reply);
  return answer;
}

// Whether the path names a field of the Step that comes from the draft, or a part of one.
bool IsOfBlock(absl::string_view path) {
  const absl::string_view field = path.substr(0, path.find_first_of(".["));
  return field == "candidates" || field == "parents" || field == "q" || field == "block_id" ||
         field == "prepared";
}

}  // namespace

StepExchange::StepExchange(const SampleRequest& request, const LoopOptions& options,
                           const CommittedTokens& committed, VerifySession& session,
                           LoopTimers& timers, const concurrency::Clock& clock,
                           RoundObserver& observer)
    : request_(request),
      options_(options),
      committed_(committed),
      session_(session),
      timers_(timers),
      clock_(clock),
      observer_(observer),
      prompt_logprobs_(request),
      watchdog_(options) {}

// ---- what is sent ----

void StepExchange::BeginRound(CandidateTree block) {
  sent_ahead_ = Chained(block.id) != nullptr;
  block_ = std::move(block);
  asked_more_ = false;
  stages_.Begin(clock_.Now());
  ForgetChained();
  if (!sent_ahead_) round_ += Pieces(committed_.size());
}

// Numbers below the next round's stay free for the pieces of its replay, whatever comes true.
void StepExchange::Chain(absl::Span<const PreparedBlock> blocks) {
  const bool may = waiting_ && target_->chains && block_.is_chain() && !chained_.has_value();
  if (!may || sent_end_ < committed_.size()) return;
  ChainedStep chained;
  for (const PreparedBlock& prepared : blocks) {
    if (prepared.base != block_.id || prepared.node > block_.size()) continue;
    if (prepared.next_token >= target_->vocabulary_size) continue;
    const uint32_t committed = committed_.size() + prepared.node + 1;
    if (committed + 1 >= request_->max_length()) continue;
    CandidateTree block = prepared.block;
    block.Truncate(std::min({static_cast<uint32_t>(block.size()), target_->max_draft_tokens,
                             request_->max_length() - committed - 1}));
    if (block.empty()) continue;
    chained.blocks.push_back({prepared.node, prepared.next_token, std::move(block)});
  }
  if (chained.blocks.empty()) return;
  chained.round = round_ + Pieces(committed_.size() + block_.depth() + 1);
  VerifyStep step;
  step.round = chained.round;
  step.after = sent_round_;
  step.chained = chained.blocks;
  step.remaining = Remaining(clock_.Now());
  step.trace = sent_trace_;
  chained_ = std::move(chained);
  session_.Submit(target_->incarnation, std::move(step));
}

void StepExchange::Ended(uint32_t node, uint32_t next_token) {
  if (!chained_.has_value()) return;
  std::erase_if(chained_->blocks, [&](const ChainedBlock& chained) {
    return chained.node != node || chained.next_token != next_token;
  });
  if (chained_->blocks.empty()) ForgetChained();
}

// A draft's ids are not trusted: what is returned is what the target has, whichever block was asked
// for.
const CandidateTree* StepExchange::Chained(base::BlockId id) const {
  if (!chained_.has_value() || chained_->blocks.size() != 1) return nullptr;
  const CandidateTree& block = chained_->blocks[0].block;
  return block.id == id ? &block : nullptr;
}

// Its number is used, so those that come are above it.
void StepExchange::ForgetChained() {
  if (chained_.has_value()) round_ = std::max(round_, chained_->round);
  chained_.reset();
}

void StepExchange::SendAfterWait(const TargetInfo& target) {
  stages_.Vain(clock_.Now());
  Send(target);
}

void StepExchange::Send(const TargetInfo& target) {
  TANDEM_CHECK(!waiting_);
  CutBlock(target);
  sent_chained_ = std::exchange(sent_ahead_, false);
  const uint32_t end = sent_chained_ ? committed_.size()
                                     : static_cast<uint32_t>(std::min<uint64_t>(
                                           committed_.size(), uint64_t{held_} + MaxStepTokens()));
  VerifyStep step;
  step.more = end < committed_.size();
  step.round = sent_chained_ ? round_ : round_ - (Pieces(committed_.size() - held_) - 1);
  step.prefix = {held_, committed_.Slice(held_, end), committed_.HashOf(end)};
  if (held_ == 0) {
    step.setup = speculation::SequenceSettings{
        .sampling = request_->sampling,
        .rule = request_->rule,
        .leniency = request_->leniency,
        .seed = request_->seed,
        .sample_index = request_.sample_index(),
        .prompt_tokens = request_->prompt_tokens(),
        .max_length = request_->max_length(),
        .priority = request_->priority,
        .cache_scope = request_->cache_scope,
        .logprobs = request_->logprobs,
        .max_nodes = std::min(request_->draft_nodes, target.max_nodes)};
    sent_replay_ = std::exchange(began_, true);
    if (sent_replay_) ++replays_;
  }
  if (!step.more) step.block = block_;
  step.prompt_logprobs = prompt_logprobs_.Wanted(held_, end);
  const concurrency::Instant now = clock_.Now();
  step.remaining = Remaining(now);
  target_ = &target;
  sent_round_ = step.round;
  sent_prompt_logprobs_ = step.prompt_logprobs;
  sent_keep_ = held_;
  sent_end_ = end;
  sent_rows_ = end - held_ + static_cast<uint32_t>(step.block.tokens.size());
  watchdog_.Sent(now);
  stages_.Sent(now);
  waiting_ = true;
  timers_.Set(LoopTimer::kWatchdog, WatchdogTime());
  target.pace->Submitted(sent_rows_);
  step.trace = sent_trace_ = observer_.OnSubmitted(now, sent_rows_, target.name);
  if (!sent_chained_) session_.Submit(target.incarnation, std::move(step));
}

absl::Duration StepExchange::Remaining(concurrency::Instant now) const {
  if (request_->deadline == concurrency::Instant::InfiniteFuture()) return absl::InfiniteDuration();
  return std::max(request_->deadline - now, absl::Microseconds(1));
}

// A tree takes room at the target for all its nodes.
void StepExchange::CutBlock(const TargetInfo& target) {
  if (target.max_nodes == 0) block_.CutToChain();
  if (block_.parents.empty()) {
    if (block_.size() > target.max_draft_tokens) block_.Truncate(target.max_draft_tokens);
    return;
  }
  uint32_t nodes = target.max_nodes;
  if (target.max_length > 0) {
    nodes = std::min(nodes, target.max_length - std::min(target.max_length, committed_.size()));
  }
  block_.Cut(nodes, target.max_draft_tokens);
  if (block_.is_chain()) block_.parents.clear();
}

void StepExchange::Drop() {
  StopWaiting(/*answered=*/false);
  target_ = nullptr;
  held_ = 0;
  asked_more_ = false;
  sent_ahead_ = false;
  chained_.reset();
}

void StepExchange::StopWaiting(bool answered) {
  if (!std::exchange(waiting_, false)) return;
  timers_.Cancel(LoopTimer::kWatchdog);
  if (answered && !sent_chained_) {  // the time of a chained one is not that of a round
    target_->pace->Answered(sent_rows_, clock_.Now() - watchdog_.sent_at());
  } else {
    target_->pace->Forgotten(sent_rows_);
  }
}

// The same for all Steps of a request, so that Pieces holds for a replay, too.
uint32_t StepExchange::MaxStepTokens() const {
  constexpr uint32_t kMaxWithLogprobs = messages::kMaxPromptLogprobTokens;
  return request_.prompt_logprobs() ? std::min(options_.max_prefix_tokens, kMaxWithLogprobs)
                                    : options_.max_prefix_tokens;
}

uint32_t StepExchange::Pieces(uint32_t tokens) const {
  return std::max(1u, (tokens + MaxStepTokens() - 1) / MaxStepTokens());
}

// ---- what comes of it ----

std::optional<Answer> StepExchange::OnVerdict(base::Incarnation incarnation, VerifyReply reply) {
  using Status = VerifyReply::Status;
  if (chained_.has_value() && incarnation == target_->incarnation &&
      reply.round == chained_->round) {  // before the round that could use it
    ForgetChained();
    return std::nullopt;
  }
  if (!waiting_ || incarnation != target_->incarnation || reply.round != sent_round_) {
    return std::nullopt;
  }
  StopWaiting(reply.status == Status::kOk);
  switch (reply.status) {
    case Status::kOk:
      return Taken(std::move(reply));
    case Status::kNeedPrefix:
      return NeedPrefix(reply);
    case Status::kNoSlot:
      return NoSlot(std::move(reply));
    case Status::kInvalid:
      return Invalid(std::move(reply));
    case Status::kExpired:
      if (request_->deadline != concurrency::Instant::InfiniteFuture()) {
        return Fail(absl::DeadlineExceededError("the request's deadline passed at the target"));
      }
      return Fault(
          absl::StrCat("the target says that a Step without a deadline expired: ", reply.message));
    case Status::kDraining:
      return Fault(std::move(reply.message), LeaveCause::kDraining);
    case Status::kStale:
    case Status::kClosed:
    case Status::kInternal:
      break;
  }
  return Fault(std::move(reply.message));
}

Answer StepExchange::Taken(VerifyReply reply) {
  if (sent_prompt_logprobs_) {
    const absl::Status good = prompt_logprobs_.Add(
        sent_keep_, sent_end_, std::move(reply.prompt_logprobs), target_->vocabulary_size);
    if (!good.ok()) {
      return Fault(absl::StrCat("the target sent a broken verdict: ", good.message()));
    }
  }
  const concurrency::Instant now = clock_.Now();
  stages_.Answered(now, reply);
  observer_.OnVerified(now, reply);
  cached_tokens_ += std::min(reply.cached_tokens, sent_end_ - sent_keep_);
  held_ = sent_end_;
  if (sent_end_ < committed_.size()) return Of(Answer::Kind::kPiece);
  return Of(Answer::Kind::kVerdict, std::move(reply));
}

// Once a round, a target may have dropped what it held. A target is at fault if it wants more than
// everything, or wants again what it has just taken.
Answer StepExchange::NeedPrefix(const VerifyReply& reply) {
  if (sent_keep_ == 0 || std::exchange(asked_more_, true)) {
    return Fault(absl::StrCat("the target needs more than the whole prefix: ", reply.message));
  }
  held_ = reply.held < sent_keep_ ? reply.held : 0;
  // The sequence stays, so this is not a replay. It gets a new number, so a second answer to the
  // old one is ignored.
  ForgetChained();
  round_ += Pieces(committed_.size() - held_);
  observer_.OnReplay(clock_.Now(), "the target lacks the prefix");
  stages_.Vain(clock_.Now());
  return Of(Answer::Kind::kNeedPrefix);
}

// The target took nothing, so the next try counts instead of this one.
Answer StepExchange::NoSlot(VerifyReply reply) {
  if (sent_keep_ == 0) {
    if (sent_replay_) --replays_;
    began_ = sent_replay_;
  }
  return Of(Answer::Kind::kNoSlot, std::move(reply));
}

// This is our own mistake, unless the target refuses a draft's block, which is not worth a request,
// or a length that an older target does not announce as too long. No verdict was read, so the round
// may run again under its key.
Answer StepExchange::Invalid(VerifyReply reply) {
  const bool with_block = !block_.tokens.empty() && sent_end_ == committed_.size();
  if (with_block && IsOfBlock(reply.field)) {
    stages_.Vain(clock_.Now());
    return Of(Answer::Kind::kBlockRefused, std::move(reply));
  }
  if (reply.field == "options.max_length") {
    return Fail(absl::ResourceExhaustedError(
        absl::StrCat("the target can never have room for the ", request_->max_length(),
                     " tokens of this request (prompt and max_tokens): ", reply.message)));
  }
  return Fail(absl::InternalError(absl::StrCat("the target refused a Step: ", reply.message)));
}

absl::Duration StepExchange::WatchdogTime() const {
  const TargetPace& pace = *target_->pace;
  return watchdog_.Limit(pace.Expected(sent_rows_, clock_.Now()), pace.answers());
}

std::optional<StepExchange::Silence> StepExchange::OnWatchdog() {
  if (!waiting_) return std::nullopt;
  const StepWatchdog::Finding finding = watchdog_.Fired(session_.last_heard());
  if (finding == StepWatchdog::Finding::kWait) {
    timers_.Set(LoopTimer::kWatchdog, WatchdogTime());
    return std::nullopt;
  }
  return Silence{finding == StepWatchdog::Finding::kStreamSilent,
                 absl::StrCat("no verdict of ", target_->name, " within ",
                              absl::FormatDuration(clock_.Now() - watchdog_.sent_at()), " for ",
                              sent_rows_, " rows")};
}

}  // namespace tandem::orchestrator
