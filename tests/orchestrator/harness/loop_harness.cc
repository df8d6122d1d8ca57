#include "tests/orchestrator/harness/loop_harness.h"

#include <algorithm>

#include "common/acceptance/rule.h"
#include "common/acceptance/tree.h"
#include "common/base/check.h"
#include "common/sampling/token_history.h"
#include "common/speculation/prefix.h"
#include "common/speculation/sequence_options.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

testing::TableModelOptions ModelOptions(const HarnessOptions& options, double noise) {
  testing::TableModelOptions model;
  model.vocabulary_size = options.vocabulary_size;
  model.peakedness = 1.5;
  model.noise = noise;
  model.noise_seed = noise > 0 ? 7 : 0;
  model.context_length = 4096;
  return model;
}

}  // namespace

concurrency::Instant FakeLoopTimers::next_due() const {
  concurrency::Instant next = concurrency::Instant::InfiniteFuture();
  for (const auto& [timer, due] : due_) next = std::min(next, due);
  return next;
}

std::optional<LoopTimer> FakeLoopTimers::TakeNext() {
  if (due_.empty()) return std::nullopt;
  auto next = std::min_element(due_.begin(), due_.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; });
  const LoopTimer timer = next->first;
  if (next->second > clock_.Now()) clock_.Advance(next->second - clock_.Now());
  due_.erase(next);
  return timer;
}

// ---- target ----

void FakeTarget::Connect() {
  ASSERT_FALSE(connected_);
  connected_ = true;
  base::Advance(incarnation);
  held_.Forget();
  unanswered_.reset();
  if (std::exchange(seeking_, false)) queue.push_back([this] { events->OnVerifyReady(); });
}

SeekResult FakeTarget::Seek() {
  SeekResult result;
  seeking_ = !connected_;
  result.kind = !connected_               ? SeekResult::Kind::kNoTarget
                : slot_retry_.has_value() ? SeekResult::Kind::kNoSlot
                                          : SeekResult::Kind::kTarget;
  result.reason = reason_;
  result.target = {
      incarnation,      "fake",           model_id, "numerics", model_.info().vocabulary_size,
      max_draft_tokens, /*max_length=*/0, pace,     max_nodes,  chains};
  return result;
}

void FakeTarget::Leave(LeaveCause cause, absl::Duration retry_after) {
  left.push_back(cause);
  Close();
  if (cause == LeaveCause::kNoSlot) slot_retry_ = clock_.Now() + retry_after;
}

void FakeTarget::RetrySlot() {
  if (*slot_retry_ > clock_.Now()) clock_.Advance(*slot_retry_ - clock_.Now());
  slot_retry_.reset();
  queue.push_back([this] { events->OnVerifyReady(); });
}

void FakeTarget::Disconnect(const std::string& reason) {
  if (!connected_) return;
  connected_ = false;
  held_.Forget();
  slot_retry_.reset();
  reason_ = reason;
  queue.push_back([this, lost = incarnation, reason] { events->OnVerifyLost(lost, reason); });
}

void FakeTarget::GiveUp(base::Incarnation lost, const std::string& reason) {
  if (lost != incarnation) return;
  Disconnect(reason);
  if (reconnects) Connect();
}

void FakeTarget::Close() {
  ++closings;
  seeking_ = false;
  slot_retry_.reset();
  ++sequence_;
  held_.Forget();
  unanswered_.reset();
}

void FakeTarget::Submit(base::Incarnation for_incarnation, VerifyStep step) {
  if (!connected_ || for_incarnation != incarnation) return;
  if (!step.chained.empty()) return Push(AnswerChained(step));
  ++steps;
  if (step.prefix.keep == 0) ++whole_prefixes;
  EXPECT_FALSE(unanswered_.has_value()) << "two unanswered Steps";
  unanswered_ = step.round;
  held_.draws_again = draws_again;
  VerifyReply reply = held_.Answer(step);
  last_step_ = step;
  last_reply_ = reply;
  if (step.block.depth() > max_draft_tokens ||
      (!step.block.is_chain() && step.block.size() > max_nodes)) {
    reply = {.round = step.round, .status = VerifyReply::Status::kInvalid};
    reply.field = "candidates";
    reply.message = "INVALID candidates: more than the limit";
  }
  const Do what = on_step ? on_step(step, reply) : Do::kAnswer;
  if (what == Do::kAnswer) Push(std::move(reply));
  if (what == Do::kHold) held_replies_.push_back({incarnation, sequence_, std::move(reply)});
}

VerifyReply FakeTarget::AnswerChained(const VerifyStep& step) {
  EXPECT_TRUE(chains);
  EXPECT_EQ(step.after, last_step_.round);
  EXPECT_GT(step.round, step.after);
  ++chained_steps;
  if (on_chained) on_chained(step);
  EXPECT_TRUE(last_step_.block.is_chain()) << "how a tree ends is not told the target";
  VerifyReply stale{.round = step.round, .status = VerifyReply::Status::kStale};
  if (last_reply_.status != VerifyReply::Status::kOk || last_step_.more) return stale;
  const CandidateTree& base = last_step_.block;
  // With uniforms of 0 what is certain is accepted, and nothing is left to chance under these
  // rules.
  const acceptance::Decision decision = acceptance::Decide(
      acceptance::Rule::kGreedy, last_reply_.entries, std::vector<double>(base.size()));
  for (const ChainedBlock& chained : step.chained) {
    EXPECT_LE(chained.block.size(), max_draft_tokens);
    EXPECT_LE(chained.node, base.size());
    EXPECT_LT(chained.next_token, model_.info().vocabulary_size) << "the whole Step is refused";
    if (chained.node != decision.accepted || chained.next_token != decision.next_token) continue;
    std::vector<uint32_t> text = held_.tokens();
    text.resize(text.size() - base.size() + decision.accepted);
    last_step_ = {.round = step.round};
    last_step_.prefix.keep = static_cast<uint32_t>(text.size());
    text.push_back(decision.next_token);
    last_step_.prefix.tokens = std::vector<uint32_t>{decision.next_token};
    last_step_.prefix.hash = speculation::PrefixHash(text);
    last_step_.block = chained.block;
    ++chained_on;
    return last_reply_ = held_.Answer(last_step_);
  }
  return stale;
}

void FakeTarget::ReleaseHeld() {
  for (Held& held : std::exchange(held_replies_, {})) Deliver(std::move(held));
}

void FakeTarget::Deliver(Held held) {
  queue.push_back([this, held = std::move(held)] {
    clock_.Advance(step_time);
    last_heard_ = clock_.Now();
    if (held.sequence != sequence_) return;
    if (held.incarnation == incarnation && held.reply.round == unanswered_) {
      unanswered_.reset();
    }
    events->OnVerdict(held.incarnation, held.reply);
  });
}

// ---- draft ----

void FakeDraft::Open(const DraftOpen& open) {
  ++opens;
  open_ = open;
  queue.clear();
  held_replies_.clear();
  prepared_.clear();
  base_ = {};
  last_block_ = ids_after;
  max_outcomes_ = 0;
  const auto checked = speculation::CheckSequenceOptions(speculation::ToWire(open.settings), 4096,
                                                         model_.info().vocabulary_size);
  const auto* refusal = std::get_if<messages::Refusal>(&checked);
  EXPECT_EQ(refusal, nullptr) << (refusal == nullptr ? "" : refusal->problem.DebugString());
  EXPECT_EQ(open.prefix.keep, 0u);
  EXPECT_EQ(open.prefix.hash, speculation::PrefixHash(open.prefix.tokens));
  tokens_.assign(open.prefix.tokens.begin(), open.prefix.tokens.end());
  last_round_ = 0;
  unanswered_ = false;
  is_open = true;
  const base::DraftAttempt attempt = open.attempt;
  if (silent_open) return;
  if (refuses || unreachable) {
    is_open = false;
    const DraftLoss loss = refuses ? DraftLoss::kRefused : DraftLoss::kLost;
    queue.push_back([this, attempt, loss] { events->OnDraftLost(attempt, loss, "no"); });
  } else {
    queue.push_back([this, attempt] {
      events->OnDraftOpened(attempt,
                            {16, 4096, "draft:50051", max_nodes, ends_by_confidence, prepares});
    });
  }
}

void FakeDraft::Advance(const DraftAdvance& advance) {
  if (!is_open) return;  // the stream has broken, and the loop is about to hear of it
  ASSERT_FALSE(unanswered_) << "two unanswered Advances";
  ASSERT_GT(advance.round, last_round_);
  ASSERT_GE(advance.max_draft_tokens, 1u);
  EXPECT_LE(advance.max_nodes, open_.settings.max_nodes);
  EXPECT_TRUE(advance.min_confidence == 0 ||
              (acceptance::HasTrees(open_.settings.rule) && advance.max_nodes == 0));
  ++advances;
  unanswered_ = true;
  last_round_ = advance.round;
  DraftReplyBlock reply = Answer(advance);
  const Do what = on_advance ? on_advance(advance, reply) : Do::kAnswer;
  held_replies_.push_back(std::move(reply));
  if (what == Do::kAnswer) ReleaseHeld();
  if (what == Do::kDrop) held_replies_.clear();
}

void FakeDraft::ReleaseHeld() {
  for (DraftReplyBlock& reply : std::exchange(held_replies_, {})) {
    queue.push_back([this, attempt = open_.attempt, reply = std::move(reply)] {
      unanswered_ = false;
      events->OnBlock(attempt, reply);
    });
  }
  Prepare();
}

DraftReplyBlock FakeDraft::Answer(const DraftAdvance& advance) {
  DraftReplyBlock reply;
  reply.round = advance.round;
  EXPECT_LE(advance.prefix.keep, tokens_.size());
  tokens_.resize(advance.prefix.keep);
  tokens_.insert(tokens_.end(), advance.prefix.tokens.begin(), advance.prefix.tokens.end());
  EXPECT_EQ(advance.prefix.hash, speculation::PrefixHash(tokens_));
  reply.block.id = base::Advance(last_block_);
  std::vector<uint32_t> context = tokens_;
  if (advance.max_nodes > 0) {
    EXPECT_LE(advance.max_nodes, max_nodes);
    const base::BlockId id = reply.block.id;
    reply.block = Tree(advance, std::move(context));
    reply.block.id = id;
    max_outcomes_ = 0;
    base_ = reply.block;
    return reply;
  }
  const base::BlockId id = reply.block.id;
  reply.block = Chain(std::move(context), advance.max_draft_tokens);
  reply.block.id = id;
  max_outcomes_ = advance.max_outcomes;
  max_draft_tokens_ = advance.max_draft_tokens;
  base_ = reply.block;
  return reply;
}

CandidateTree FakeDraft::Chain(std::vector<uint32_t> context, uint32_t tokens) {
  CandidateTree chain;
  const auto committed = static_cast<uint32_t>(context.size());
  const bool coupled = open_.settings.rule == acceptance::Rule::kCoupled;
  sampling::TokenHistory history(open_.settings.prompt_tokens);
  history.Append(context);
  for (uint32_t i = 0; i < tokens; ++i) {
    const sampling::Distribution p =
        sampling::MakeDistribution(model_.LogitsAfter(context), model_.info().vocabulary_size,
                                   open_.settings.sampling, history);
    const sampling::SparseDistribution q = sampling::Sparsify(p, 4);
    const double u = random::Uniform({open_.settings.seed, open_.settings.sample_index, committed},
                                     committed + i, random::Purpose::kDraft, 1);
    context.push_back(coupled ? sampling::DrawRace(p, open_.settings.seed,
                                                   open_.settings.sample_index, committed + i)
                              : sampling::Draw(q, u));
    history.Append(context.back());
    chain.tokens.push_back(context.back());
    if (!open_.settings.sampling.greedy() && !coupled) chain.q.push_back(q);
  }
  return chain;
}

// The blocks of the three likeliest outcomes of each node of base_.
void FakeDraft::Prepare() {
  prepared_.clear();
  if (!prepares || max_outcomes_ == 0) return;
  std::vector<uint32_t> context = tokens_;
  for (uint32_t node = 0; node <= base_.size(); ++node) {
    if (node > 0) context.push_back(base_.tokens[node - 1]);
    for (const sampling::RankedToken& rank : Ranks(context, 3)) {
      if (prepared_.size() >= max_outcomes_) break;
      if (node < base_.size() && rank.token == base_.tokens[node]) continue;
      std::vector<uint32_t> after = context;
      after.push_back(rank.token);
      PreparedBlock prepared{base_.id, node, rank.token,
                             Chain(std::move(after), max_draft_tokens_)};
      prepared.block.id = base::Advance(last_block_);
      if (on_prepared && !on_prepared(prepared)) continue;
      prepared_.push_back(std::move(prepared));
    }
  }
  if (prepared_.empty()) return;
  queue.push_back([this, attempt = open_.attempt, prepared = prepared_] {
    events->OnPrepared(attempt, prepared);
  });
}

std::vector<sampling::RankedToken> FakeDraft::Ranks(const std::vector<uint32_t>& context,
                                                    size_t count) const {
  sampling::TokenHistory history(open_.settings.prompt_tokens);
  history.Append(context);
  sampling::SamplingParameters parameters = open_.settings.sampling;
  const bool greedy = parameters.greedy();
  if (greedy) parameters.temperature = 1;
  const sampling::Distribution p = sampling::MakeDistribution(
      model_.LogitsAfter(context), model_.info().vocabulary_size, parameters, history);
  return greedy ? sampling::RankLikeliest(p, count)
                : sampling::RankRace(p, open_.settings.seed, open_.settings.sample_index,
                                     static_cast<uint32_t>(context.size()), count);
}

CandidateTree FakeDraft::Tree(const DraftAdvance& advance, std::vector<uint32_t> context) const {
  CandidateTree tree;
  uint32_t end = 0;
  for (uint32_t i = 0; i < advance.max_draft_tokens && tree.size() + 2 <= advance.max_nodes; ++i) {
    const auto ranks = Ranks(context, 2);
    for (const sampling::RankedToken& rank : ranks) {
      tree.tokens.push_back(rank.token);
      tree.parents.push_back(end);
    }
    end = static_cast<uint32_t>(tree.size() - ranks.size() + 1);
    context.push_back(ranks[0].token);
  }
  return tree;
}

void FakeDraft::Submitted(base::BlockId block_id, uint32_t nodes) {
  if (!is_open) return;
  EXPECT_GE(nodes, 1u);
  ++submitted;
  const auto taken_one =
      std::find_if(prepared_.begin(), prepared_.end(),
                   [&](const PreparedBlock& prepared) { return prepared.block.id == block_id; });
  if (taken_one == prepared_.end()) {
    EXPECT_EQ(block_id, base_.id);
    return;
  }
  ++taken;
  EXPECT_LE(nodes, taken_one->block.size());
  tokens_.insert(tokens_.end(), base_.tokens.begin(), base_.tokens.begin() + taken_one->node);
  tokens_.push_back(taken_one->next_token);
  base_ = CandidateTree(taken_one->block);
  base_.Truncate(nodes);
  Prepare();
}

void FakeDraft::Close() {
  is_open = false;
  queue.clear();
  held_replies_.clear();
}

NextDraft FakeDraft::GiveUp(DraftLoss loss, absl::Duration /*at_least*/) {
  Close();
  if (others > 0) {
    --others;
    return NextDraft::kNow;
  }
  return loss == DraftLoss::kRefused ? NextDraft::kNever : NextDraft::kLater;
}

void FakeDraft::Break() {
  if (!is_open) return;
  is_open = false;
  held_replies_.clear();
  queue.push_back([this, attempt = open_.attempt] {
    events->OnDraftLost(attempt, DraftLoss::kLost, "broken");
  });
}

// ---- harness ----

namespace {

// What an observer may wrap, where the fakes belong to the harness.
class ToDraft final : public DraftSession {
 public:
  explicit ToDraft(FakeDraft& draft) : draft_(draft) {}
  void Open(const DraftOpen& open) override { draft_.Open(open); }
  void Advance(const DraftAdvance& advance) override { draft_.Advance(advance); }
  void Submitted(base::BlockId block_id, uint32_t nodes) override {
    draft_.Submitted(block_id, nodes);
  }
  void Close() override { draft_.Close(); }
  NextDraft GiveUp(DraftLoss loss, absl::Duration at_least) override {
    return draft_.GiveUp(loss, at_least);
  }

 private:
  FakeDraft& draft_;
};

class ToTarget final : public VerifySession {
 public:
  explicit ToTarget(FakeTarget& target) : target_(target) {}
  SeekResult Seek() override { return target_.Seek(); }
  void Leave(LeaveCause cause, absl::Duration retry_after) override {
    target_.Leave(cause, retry_after);
  }
  void Close() override { target_.Close(); }
  bool OfferSlot() override { return target_.OfferSlot(); }
  void Submit(base::Incarnation incarnation, VerifyStep step) override {
    target_.Submit(incarnation, std::move(step));
  }
  void GiveUp(base::Incarnation incarnation, const std::string& reason) override {
    target_.GiveUp(incarnation, reason);
  }
  concurrency::Instant last_heard() const override { return target_.last_heard(); }

 private:
  FakeTarget& target_;
};

}  // namespace

LoopHarness::LoopHarness(GenerationRequest wanted, HarnessOptions harness_options)
    : request(std::move(wanted)),
      options(std::move(harness_options)),
      timers(clock),
      target_model(ModelOptions(options, 0)),
      draft_model(ModelOptions(options, options.draft_noise)),
      target(clock, target_model),
      draft(draft_model) {
  stream = std::make_unique<TokenStream>(
      request, options.detokenizer ? options.detokenizer() : std::make_unique<LetterDetokenizer>(),
      reader, options.loop.max_undelivered_tokens, unread);
  TANDEM_CHECK_OK(stream->Resume(request.output_prefix));
  observer = options.watch ? options.watch(clock) : std::make_unique<RoundObserver>();
  if (options.with_draft) draft_session = std::make_unique<ToDraft>(draft);
  verify_session = std::make_unique<ToTarget>(target);
  LoopParts parts{
      draft_session.get(), verify_session.get(), stream.get(), &timers, &clock, observer.get(), {}};
  parts.lengths = options.lengths;
  parts.drafters = options.drafters;
  loop = std::make_unique<SpeculationLoop>(request, options.loop, parts, clock.Now(),
                                           [this](Ending end) {
                                             ++endings;
                                             ending = std::move(end);
                                           });
  target.events = loop.get();
  draft.events = loop.get();
  if (options.connected) target.Connect();
}

bool LoopHarness::DeliverOne() {
  std::deque<Event>* queue = &draft.queue;
  if (queue->empty()) queue = &target.queue;
  if (queue->empty()) return false;
  Event event = std::move(queue->front());
  queue->pop_front();
  event();
  if (reader.reads) Read();
  return true;
}

void LoopHarness::DeliverAll() {
  while (DeliverOne()) {
  }
}

bool LoopHarness::FireNextTimer() {
  const std::optional<concurrency::Instant> slot = target.slot_retry();
  if (slot.has_value() && *slot <= timers.next_due()) {
    target.RetrySlot();
    return true;
  }
  std::optional<LoopTimer> timer = timers.TakeNext();
  if (!timer.has_value()) return false;
  loop->OnTimer(*timer);
  return true;
}

void LoopHarness::Run(int max_events) {
  for (int i = 0; i < max_events && !ending.has_value(); ++i) {
    if (DeliverOne()) continue;
    if (!FireNextTimer()) return;
  }
}

void LoopHarness::Read() {
  while (reader.waiting > 0) {
    --reader.waiting;
    stream->OnWritten();
  }
  loop->OnDrained();
}

std::vector<uint32_t> LoopHarness::PlainIds() const {
  std::vector<uint32_t> context = request.prompt;
  std::vector<uint32_t> output;
  speculation::SequenceSettings setup;
  setup.sampling = request.sampling;
  setup.prompt_tokens = request.prompt_tokens();
  while (output.size() < request.max_tokens) {
    const sampling::Distribution p = DistributionAfter(target_model, setup, context);
    const uint32_t committed = static_cast<uint32_t>(context.size());
    output.push_back(p.ids.size() == 1
                         ? p.ids[0]
                         : sampling::DrawRace(p, request.seed, request.sample_index, committed));
    context.push_back(output.back());
    if (std::count(request.sampling.stop_token_ids.begin(), request.sampling.stop_token_ids.end(),
                   output.back()) > 0)
      break;
  }
  return output;
}

GenerationRequest SmallRequest(std::optional<uint32_t> draft_tokens, double temperature) {
  GenerationRequest request;
  request.id = "test";
  request.prompt = {1, 2, 3, 4, 5};
  request.sampling.temperature = temperature;
  request.rule = temperature == 0 ? acceptance::Rule::kGreedy : acceptance::Rule::kSpeculative;
  request.seed = 42;
  request.max_tokens = 32;
  request.draft_tokens = draft_tokens;
  return request;
}

}  // namespace tandem::orchestrator
