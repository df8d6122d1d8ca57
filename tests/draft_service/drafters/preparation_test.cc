// Blocks that a draft model makes in advance: each is, byte for byte, the block that it makes when
// it is asked after the outcome. And which outcomes get one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "draft_service/drafters/preparation.h"
#include "tests/draft_service/drafters/drafting.h"
#include "tests/support/fuzz_seeds.h"

namespace tandem::draft_service::preparation_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

using Tokens = std::vector<uint32_t>;

std::vector<DrafterSetup> Setups(uint64_t seed) {
  DrafterSetup most_likely = AllOptions(seed, Rule::kCoupled);
  most_likely.proposal = Proposal::kGreedy;
  DrafterSetup without_options;
  without_options.rule = Rule::kCoupled;
  without_options.seed = seed;
  without_options.sampling.temperature = 1;
  without_options.max_length = 150;
  return {AllOptions(seed, Rule::kCoupled), AllOptions(seed, Rule::kGreedy, 0), most_likely,
          without_options};
}

Tokens After(Tokens text, absl::Span<const uint32_t> base, uint32_t node, uint32_t next_token) {
  text.insert(text.end(), base.begin(), base.begin() + node);
  text.push_back(next_token);
  return text;
}

// What is drafted when it is asked for after `text`, without anything in advance.
Tokens Asked(TableModel& model, const DrafterSetup& setup, const Tokens& text,
             uint32_t max_draft_tokens) {
  auto fresh = Make(model, setup);
  Accept(*fresh, 0, text);
  return Propose(*fresh, max_draft_tokens).tokens;
}

// A drafter whose passes a test makes, each cut anywhere.
struct Driven {
  Driven(TableModel& table, const DrafterSetup& setup, std::mt19937& dice)
      : model(table), random(dice), owner(Make(table, setup)), drafter(*owner->forward_drafter()) {}

  // False: nothing was wanted.
  bool RunPart() {
    if (drafter.wanted().total() == 0) return false;
    const model::ForwardPart part = drafter.NextPart(1 + static_cast<int>(random() % 6));
    const auto logits = model.Forward({&part, 1});
    TANDEM_CHECK_OK(logits);
    TANDEM_CHECK_OK(
        drafter.ReadLogits({logits->data, static_cast<size_t>(logits->rows) * kVocabulary}));
    return true;
  }
  // Returns how many there were.
  size_t RunAll() {
    size_t parts = 0;
    while (RunPart()) ++parts;
    return parts;
  }

  TableModel& model;
  std::mt19937& random;
  std::unique_ptr<Drafter> owner;
  ForwardDrafter& drafter;
};

struct Counts {
  int prepared = 0;
  int hits = 0;
  int cut_bases = 0;
  int stopped = 0;
  int head_starts = 0;  // blocks that began with what was prepared
};

// A client that asks, takes what was prepared, cuts, goes another way, goes back, and asks too
// early. All that it is given is compared with what is drafted anew.
class Client {
 public:
  Client(TableModel& model, const DrafterSetup& setup, std::mt19937& random)
      : setup_(setup), random_(random), driven_(model, setup, random) {
    committed_ = RandomTokens(random, 4 + random() % 5);
    Accept(driven_.drafter, 0, committed_);
  }

  bool done() const { return committed_.size() > 110; }

  void Ask(Counts& counts) {
    shape_ = {.max_draft_tokens = 1 + static_cast<uint32_t>(random_() % 5),
              .max_outcomes = 1 + static_cast<uint32_t>(random_() % kMaxOutcomes)};
    driven_.drafter.BeginBlock(shape_);
    size_t parts = SIZE_MAX;
    if (random_() % 5 == 0) {  // cut by time
      for (uint32_t i = static_cast<uint32_t>(random_() % 8); i > 0; --i) driven_.RunPart();
    } else {
      parts = driven_.RunAll();
    }
    base_ = driven_.drafter.EndBlock().tokens;
    if (parts < base_.size()) ++counts.head_starts;
    Tokens whole = Asked(driven_.model, setup_, committed_, shape_.max_draft_tokens);
    whole.resize(base_.size());
    ASSERT_EQ(base_, whole);
    if (base_.empty()) return GoOn(counts);
    Prepare(counts);
  }

 private:
  void Prepare(Counts& counts) {
    if (random_() % 6 == 0) {
      base_.resize(random_() % (base_.size() + 1));
      driven_.drafter.CutBase(static_cast<uint32_t>(base_.size()));
      ++counts.cut_bases;
    }
    driven_.drafter.BeginPreparing();
    if (random_() % 5 == 0) {  // the verdict comes early
      for (uint32_t i = static_cast<uint32_t>(random_() % 6); i > 0; --i) driven_.RunPart();
      if (random_() % 2 == 0) driven_.drafter.StopPreparing();
      ++counts.stopped;
      return GoOn(counts);
    }
    driven_.RunAll();
    const std::vector<PreparedBlock> prepared = driven_.drafter.Prepared();
    ASSERT_LE(prepared.size(), shape_.max_outcomes);
    std::set<std::pair<uint32_t, uint32_t>> outcomes;
    for (const PreparedBlock& block : prepared) {
      ASSERT_LE(block.node, base_.size());
      ASSERT_TRUE(outcomes.emplace(block.node, block.next_token).second) << "twice";
      ASSERT_TRUE(block.node == base_.size() || block.next_token != base_[block.node]);
      const Tokens text = After(committed_, base_, block.node, block.next_token);
      ASSERT_EQ(block.tokens, Asked(driven_.model, setup_, text, shape_.max_draft_tokens));
      ++counts.prepared;
    }
    if (prepared.empty() || random_() % 3 == 0) return GoOn(counts);
    const PreparedBlock& hit = prepared[random_() % prepared.size()];
    driven_.drafter.AcceptPrepared(hit.node, hit.next_token);
    committed_ = After(committed_, base_, hit.node, hit.next_token);
    base_ = hit.tokens;
    ++counts.hits;
    if (!done()) Prepare(counts);
  }

  // By an Advance. The text goes back now and then, and may go a way for which rows are there, or
  // the likeliest one.
  void GoOn(Counts& /*counts*/) {
    size_t keep = committed_.size();
    Tokens next;
    if (!base_.empty() && random_() % 3 == 0) {
      const Tokens text =
          After(committed_, base_, static_cast<uint32_t>(base_.size()) - 1, base_.back());
      next = base_;
      for (const uint32_t token : Asked(driven_.model, setup_, text, 1)) next.push_back(token);
      committed_.insert(committed_.end(), next.begin(), next.end());
      return Accept(driven_.drafter, keep, next);
    }
    if (random_() % 6 == 0) {
      keep -= random_() % committed_.size();
    } else if (!base_.empty()) {
      next.assign(base_.begin(),
                  base_.begin() + static_cast<ptrdiff_t>(random_() % (base_.size() + 1)));
    }
    for (size_t i = random_() % 3 + (keep + next.size() == 0 ? 1 : 0); i > 0; --i) {
      next.push_back(static_cast<uint32_t>(random_() % kVocabulary));
    }
    committed_.resize(keep);
    committed_.insert(committed_.end(), next.begin(), next.end());
    Accept(driven_.drafter, keep, next);
  }

  const DrafterSetup setup_;
  std::mt19937& random_;
  Driven driven_;
  Tokens committed_;
  Tokens base_;
  BlockShape shape_;
};

TEST(Preparation, APreparedBlockIsTheOneThatIsMadeOnAsking) {
  std::mt19937 random(31);
  Counts counts;
  for (uint64_t seed = 0; seed < testing::FuzzSeeds(2); ++seed) {
    for (const DrafterSetup& setup : Setups(seed)) {
      TableModel model({.peakedness = 1.5});
      Client one(model, setup, random);
      Client other(model, setup, random);  // of the same model, which shares its odds and its noise
      while (!one.done() || !other.done()) {
        if (!one.done()) one.Ask(counts);
        if (!other.done()) other.Ask(counts);
        ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
      }
    }
  }
  EXPECT_GT(counts.prepared, 1500);
  EXPECT_GT(counts.hits, 150);
  EXPECT_GT(counts.cut_bases, 60);
  EXPECT_GT(counts.stopped, 60);
  EXPECT_GT(counts.head_starts, 30);
}

// ---- faults that the comparison must see ----

enum class Fault { kNone, kNoiseOfTheNextPosition, kPathIsNotCounted, kStaleBase };

// The block after `committed` and `path`, drawn anew as a preparation with that fault would.
Tokens Drawn(const TableModel& model, const DrafterSetup& setup, const Tokens& committed,
             const Tokens& path, size_t size, Fault fault) {
  Tokens text = committed;
  if (fault == Fault::kStaleBase) text.pop_back();
  TokenHistory history(setup.prompt_tokens);
  history.Append(text);
  text.insert(text.end(), path.begin(), path.end());
  if (fault != Fault::kPathIsNotCounted) history.Append(path);
  Tokens drawn;
  while (drawn.size() < size) {
    const auto q =
        sampling::MakeDistribution(model.LogitsAfter(text), kVocabulary, setup.sampling, history);
    const auto position =
        static_cast<uint32_t>(text.size()) + (fault == Fault::kNoiseOfTheNextPosition ? 1 : 0);
    drawn.push_back(sampling::DrawRace(q, setup.seed, setup.sample_index, position));
    text.push_back(drawn.back());
    history.Append(drawn.back());
  }
  return drawn;
}

TEST(Preparation, FaultsAreSeen) {
  std::mt19937 random(7);
  std::map<Fault, int> differ;
  int blocks = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const DrafterSetup setup = AllOptions(seed, Rule::kCoupled);
    TableModel model({});
    Driven driven(model, setup, random);
    const Tokens committed = RandomTokens(random, 6);
    Accept(driven.drafter, 0, committed);
    driven.drafter.BeginBlock({.max_draft_tokens = 3, .max_outcomes = 8});
    driven.RunAll();
    const Tokens base = driven.drafter.EndBlock().tokens;
    driven.drafter.BeginPreparing();
    driven.RunAll();
    for (const PreparedBlock& block : driven.drafter.Prepared()) {
      const Tokens path = After({}, base, block.node, block.next_token);
      ++blocks;
      for (const Fault fault : {Fault::kNone, Fault::kNoiseOfTheNextPosition,
                                Fault::kPathIsNotCounted, Fault::kStaleBase}) {
        differ[fault] += Drawn(model, setup, committed, path, 3, fault) != block.tokens ? 1 : 0;
      }
    }
  }
  EXPECT_GT(blocks, 150);
  EXPECT_EQ(differ[Fault::kNone], 0);
  EXPECT_GT(differ[Fault::kNoiseOfTheNextPosition], blocks / 2);
  EXPECT_GT(differ[Fault::kPathIsNotCounted], blocks / 10);
  EXPECT_GT(differ[Fault::kStaleBase], blocks / 2);
}

// ---- rows ----

TEST(Preparation, ItsRowsAreBoundedAndAHitComputesNothingTwice) {
  std::mt19937 random(3);
  for (const DrafterSetup& setup : Setups(5)) {
    TableModel model({});
    Driven driven(model, setup, random);
    Tokens committed = {1, 2, 3, 4};
    Accept(driven.drafter, 0, committed);
    driven.drafter.BeginBlock({.max_draft_tokens = 3, .max_outcomes = 6});
    driven.RunAll();
    EXPECT_EQ(model.rows(), 4 + 2) << "what was asked for takes the rows that it takes without";
    Tokens base = driven.drafter.EndBlock().tokens;
    int64_t before = model.rows();
    for (int hit = 0; hit < 5; ++hit) {
      driven.drafter.BeginPreparing();
      driven.RunAll();
      const std::vector<PreparedBlock> prepared = driven.drafter.Prepared();
      ASSERT_FALSE(prepared.empty());
      EXPECT_EQ(model.rows() - before, 1 + 3 * static_cast<int64_t>(prepared.size()));
      before = model.rows();
      const PreparedBlock& block = prepared[random() % prepared.size()];
      driven.drafter.AcceptPrepared(block.node, block.next_token);
      committed = After(committed, base, block.node, block.next_token);
      base = block.tokens;
    }
    // An Advance after the whole block: the last draft token's row is short, and the next token's.
    Tokens next = base;
    next.push_back(5);
    Accept(driven.drafter, committed.size(), next);
    Propose(driven.drafter, 1);
    EXPECT_EQ(model.rows() - before, 2);
  }
}

// The Advance brings what Submitted would have told.
TEST(Preparation, AnAdvanceKeepsTheRowsThatCameTrue) {
  std::mt19937 random(3);
  const DrafterSetup setup = AllOptions(1, Rule::kCoupled);
  TableModel model({});
  Driven driven(model, setup, random);
  const Tokens committed = {1, 2, 3, 4};
  Accept(driven.drafter, 0, committed);
  driven.drafter.BeginBlock({.max_draft_tokens = 3, .max_outcomes = 6});
  driven.RunAll();
  const Tokens base = driven.drafter.EndBlock().tokens;
  driven.drafter.BeginPreparing();
  driven.RunAll();
  const PreparedBlock hit = driven.drafter.Prepared().at(1);
  Tokens next = After({}, base, hit.node, hit.next_token);
  next.insert(next.end(), hit.tokens.begin(), hit.tokens.end());
  Accept(driven.drafter, committed.size(), next);
  const int64_t before = model.rows();
  Propose(driven.drafter, 1);
  EXPECT_EQ(model.rows() - before, 1) << "only the last token's row was not there";
}

TEST(Preparation, FitsTheRoomThatIsLeft) {
  for (uint32_t room = 8; room < 24; ++room) {
    std::mt19937 random(room);
    const DrafterSetup setup = AllOptions(2, Rule::kCoupled);
    TableModel model({.context_length = room});
    Driven driven(model, setup, random);
    const Tokens committed = RandomTokens(random, 7);
    Accept(driven.drafter, 0, committed);
    driven.drafter.BeginBlock({.max_draft_tokens = 4, .max_outcomes = 16});
    driven.RunAll();
    const Tokens base = driven.drafter.EndBlock().tokens;
    driven.drafter.BeginPreparing();
    driven.RunAll();  // the model refuses what does not fit
    for (const PreparedBlock& block : driven.drafter.Prepared()) {
      const Tokens text = After(committed, base, block.node, block.next_token);
      EXPECT_EQ(block.tokens, Asked(model, setup, text, 4));
    }
  }
}

TEST(Preparation, IsNotForCandidatesThatAreDrawnFromAQ) {
  TableModel model({});
  EXPECT_FALSE(Make(model, AllOptions(1, Rule::kSpeculative))->forward_drafter()->prepares());
  EXPECT_FALSE(Make(model, AllOptions(1, Rule::kBlock))->forward_drafter()->prepares());
  EXPECT_TRUE(Make(model, AllOptions(1, Rule::kCoupled))->forward_drafter()->prepares());
}

// ---- which outcomes ----

std::vector<std::pair<uint32_t, uint32_t>> Outcomes(const Preparation& preparation) {
  std::vector<std::pair<uint32_t, uint32_t>> outcomes;
  for (const PreparedBlock& block : preparation.Blocks()) {
    outcomes.emplace_back(block.node, block.next_token);
  }
  return outcomes;
}

// Ranks `best`, and the two ids after it, with that gap.
Preparation::Ranking Ranked(uint32_t best, double gap) {
  return {{best, 0}, {best + 1, -gap}, {best + 2, -gap - 1}};
}

TEST(Preparation, TakesTheLikeliestOutcomes) {
  OutcomeOdds odds;
  Preparation preparation(4, 1, odds);
  preparation.AddToBase(Ranked(10, 2));    // rather sure
  preparation.AddToBase(Ranked(20, 0.1));  // in doubt
  preparation.Begin(100, 100);
  ASSERT_EQ(preparation.wanted(), 1u);
  EXPECT_EQ(preparation.WantedRow(0).token, 20u);
  EXPECT_EQ(preparation.WantedRow(0).parent, 1);
  preparation.Add(2, Ranked(30, 2));
  ASSERT_EQ(preparation.wanted(), 4u);
  for (int row = 3; preparation.wanted() > 0; ++row) preparation.Add(row, Ranked(40, 1));
  // All stand (0.41); the doubtful one is replaced by the second in rank (0.27) or the third
  // (0.10), the other one by the second (0.08). Less likely are the third there (0.03), and the
  // second after all that stand (0.04).
  EXPECT_THAT(Outcomes(preparation),
              ElementsAre(Pair(2, 30), Pair(1, 21), Pair(1, 22), Pair(0, 11)));
}

TEST(Preparation, TakesNoneThatIsTooUnlikely) {
  OutcomeOdds odds;
  const Preparation::Ranking sure = {{10, 0}};
  for (int i = 0; i < 500; ++i) odds.Observe(sure, 10);
  Preparation preparation(16, 1, odds);
  preparation.AddToBase(sure);
  preparation.Begin(100, 100);
  preparation.Add(1, sure);
  EXPECT_EQ(preparation.wanted(), 1u) << "that all stand, and nothing else";
}

TEST(OutcomeOdds, AreLearnedByTheGap) {
  OutcomeOdds odds;
  const Preparation::Ranking close = Ranked(1, 0.1), far = Ranked(1, 3);
  EXPECT_GT(odds.Of(far)[0], odds.Of(close)[0]);
  for (int i = 0; i < 1500; ++i) {
    odds.Observe(close, i % 4 == 0 ? 1 : 3);  // another of the ranking, where it is not the first
    odds.Observe(far, i % 10 == 0 ? 2 : 1);
  }
  EXPECT_NEAR(odds.Of(close)[0], 0.25, 0.02);
  EXPECT_NEAR(odds.Of(far)[0], 0.9, 0.02);
  EXPECT_NEAR(odds.Of(close)[1], 0.75 * std::exp(0) / (1 + std::exp(-1)), 0.02);
  EXPECT_NEAR(odds.Of(close)[2], 0.75 * std::exp(-1) / (1 + std::exp(-1)), 0.02);
  for (int i = 0; i < 5000; ++i) odds.Observe(close, i % 50 == 0 ? 99 : 1);
  EXPECT_GT(odds.Of(close)[0], 0.97) << "what is long past counts no longer";
  EXPECT_LT(odds.Of(far)[1], 0.1 * 0.9) << "mostly it was none of the ranking";
}

}  // namespace
}  // namespace tandem::draft_service::preparation_test
