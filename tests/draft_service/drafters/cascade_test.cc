// A cascade drafts what its model drafts alone, in fewer passes. (That its text follows the target:
// ngram_law_test.cc.)
#include "draft_service/drafters/cascade.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "tests/draft_service/drafters/drafting.h"
#include "tests/draft_service/drafters/ngram_drafters.h"
#include "tests/support/chi_square.h"

namespace tandem::draft_service::cascade_test {
namespace {

using Tokens = std::vector<uint32_t>;

std::shared_ptr<const SuccessorTable> Table() {
  return std::make_shared<FixedTable>(
      std::map<uint32_t, std::vector<Successor>>{{0, {{1, 3}, {2, 2}}},
                                                 {1, {{3, 2}, {5, 1}, {7, 1}}},
                                                 {2, {{1, 5}, {3, 4}, {2, 1}}},
                                                 {3, {{2, 1}, {6, 1}}},
                                                 {5, {{4, 3}, {0, 1}}}});
}

std::unique_ptr<Drafter> MakeCascade(model::LanguageModel& model, const DrafterSetup& setup,
                                     std::shared_ptr<const SuccessorTable> table, int query = 1) {
  auto drafter = CascadeFactory(model, {}, {.context = {.query = query}, .table = std::move(table)})
                     .make(setup, setup.proposal);
  TANDEM_CHECK_OK(drafter);
  return *std::move(drafter);
}

void ExpectSameBlock(const CandidateTree& block, const CandidateTree& expected) {
  EXPECT_EQ(block.tokens, expected.tokens);
  EXPECT_TRUE(block.parents.empty());
  ASSERT_EQ(block.q.size(), expected.q.size());
  for (size_t i = 0; i < block.q.size(); ++i) {
    EXPECT_EQ(block.q[i].ids, expected.q[i].ids) << i;
    EXPECT_EQ(block.q[i].weights, expected.q[i].weights) << i;
  }
}

// Some of a block stands and a token follows, or the text goes back.
void Go(std::mt19937& random, const CandidateTree& block, Tokens& text,
        absl::Span<Drafter* const> drafters) {
  const size_t accepted = random() % (block.size() + 1);
  Tokens next(block.tokens.begin(), block.tokens.begin() + static_cast<ptrdiff_t>(accepted));
  next.push_back(static_cast<uint32_t>(random() % kVocabulary));
  size_t keep = text.size();
  if (random() % 5 == 0) keep -= random() % text.size();
  text.resize(keep);
  text.insert(text.end(), next.begin(), next.end());
  for (Drafter* drafter : drafters) Accept(*drafter, keep, next);
}

struct Drawn {
  const char* name;
  Rule rule;
  double temperature;
  Proposal proposal;
  bool table;  // that may be there, and the block is still the model's to the bit
};

// Passes that the model's own blocks took, and those that the cascade's took.
struct Passes {
  int64_t alone = 0, cascade = 0;
};

Passes ExpectTheModelsBlocks(const Drawn& drawn) {
  Passes passes;
  std::mt19937 random(7);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    DrafterSetup setup = AllOptions(seed, drawn.rule, drawn.temperature);
    setup.proposal = drawn.proposal;
    TableModel model({.peakedness = 3}), same({.peakedness = 3});
    auto alone = Make(model, setup);
    auto cascade = MakeCascade(same, setup, drawn.table ? Table() : nullptr);
    Tokens text = RandomTokens(random, 2 + random() % 50);
    for (Drafter* drafter : {alone.get(), cascade.get()}) Accept(*drafter, 0, text);
    for (int round = 0; round < 10; ++round) {
      const auto max = 1 + static_cast<uint32_t>(random() % 8);
      const CandidateTree block = Propose(*cascade, max);
      ExpectSameBlock(block, Propose(*alone, max));
      EXPECT_EQ(block.size(), max);
      Go(random, block, text, {alone.get(), cascade.get()});
    }
    passes.alone += model.passes();
    passes.cascade += same.passes();
  }
  return passes;
}

TEST(Cascade, BlocksAreTheModelsToTheBit) {
  for (const Drawn& drawn :
       {Drawn{"coupled", Rule::kCoupled, 0.9, Proposal::kDefault, true},
        Drawn{"coupled, greedy", Rule::kCoupled, 0.9, Proposal::kGreedy, true},
        Drawn{"temperature 0", Rule::kGreedy, 0, Proposal::kDefault, true},
        Drawn{"one-hot", Rule::kSpeculative, 0.9, Proposal::kGreedy, true},
        Drawn{"speculative, of the text", Rule::kSpeculative, 0.9, Proposal::kDefault, false},
        Drawn{"block, of the text", Rule::kBlock, 0.9, Proposal::kSampled, false},
        Drawn{"lenient, of the text", Rule::kLenient, 0.9, Proposal::kDefault, false}}) {
    SCOPED_TRACE(drawn.name);
    const Passes passes = ExpectTheModelsBlocks(drawn);
    EXPECT_LT(passes.cascade, passes.alone * 19 / 20);
  }
}

// Guesses that a table draws: a block of two tokens follows the model's own distribution, and each
// q is what the model says there.
TEST(Cascade, GuessesThatAreDrawnLeaveTheModelsDistribution) {
  TableModel model({});
  const Tokens prompt = {4, 1};  // nothing in it comes twice
  DrafterSetup setup;
  setup.max_length = 150;
  const auto q_after = [&](const Tokens& text) {
    return sampling::Sparsify(sampling::MakeDistribution(model.LogitsAfter(text), kVocabulary, {}),
                              64);
  };
  std::vector<double> exact;
  for (uint32_t a = 0; a < kVocabulary; ++a) {
    for (uint32_t b = 0; b < kVocabulary; ++b)
      exact.push_back(q_after(prompt)(a) * q_after({1, a})(b));
  }
  std::vector<int64_t> counts(exact.size());
  int64_t passes = 0;
  for (setup.seed = 0; setup.seed < 12'000; ++setup.seed) {
    auto drafter = MakeCascade(model, setup, Table());
    Accept(*drafter, 0, prompt);
    const int64_t before = model.passes();
    const CandidateTree block = Propose(*drafter, 2);
    passes += model.passes() - before;
    ASSERT_EQ(block.size(), 2u);
    ASSERT_EQ(block.q.size(), 2u);
    ASSERT_EQ(block.q[0].weights, q_after(prompt).weights);
    ASSERT_EQ(block.q[1].weights, q_after({1, block.tokens[0]}).weights);
    ++counts[block.tokens[0] * kVocabulary + block.tokens[1]];
  }
  const testing::ChiSquare fit = testing::GoodnessOfFit(exact, counts);
  EXPECT_TRUE(fit.Passes()) << fit.ToString();
  EXPECT_LT(passes, 12'000 * 2 * 9 / 10);
}

CandidateTree ProposeInParts(Drafter& drafter, uint32_t max, std::mt19937& random) {
  ForwardDrafter& forward = *drafter.forward_drafter();
  forward.BeginBlock({max});
  while (forward.wanted().total() > 0) {
    const model::ForwardPart part = forward.NextPart(1 + static_cast<int>(random() % 3));
    const auto logits = forward.model().Forward({&part, 1});
    TANDEM_CHECK_OK(logits);
    TANDEM_CHECK_OK(
        forward.ReadLogits({logits->data, static_cast<size_t>(logits->rows) * kVocabulary}));
  }
  return forward.EndBlock();
}

// Also where guesses are tested: a guess is tested by the same number, in whatever pass its row is.
TEST(Cascade, HowPassesAreCutChangesNothing) {
  std::mt19937 random(9);
  for (uint64_t seed = 0; seed < 40; ++seed) {
    TableModel model({.peakedness = 2});
    const DrafterSetup setup =
        AllOptions(seed, seed % 2 == 0 ? Rule::kSpeculative : Rule::kCoupled);
    auto whole = MakeCascade(model, setup, Table());
    auto cut = MakeCascade(model, setup, Table());
    Tokens text = RandomTokens(random, 2 + random() % 40);
    for (Drafter* drafter : {whole.get(), cut.get()}) Accept(*drafter, 0, text);
    for (int round = 0; round < 10; ++round) {
      const auto max = 1 + static_cast<uint32_t>(random() % 8);
      const CandidateTree block = Propose(*whole, max);
      ExpectSameBlock(ProposeInParts(*cut, max, random), block);
      Go(random, block, text, {whole.get(), cut.get()});
      auto fresh = MakeCascade(model, setup, Table());
      Accept(*fresh, 0, text);
      ExpectSameBlock(Propose(*fresh, 3), Propose(*whole, 3));
    }
  }
}

// A text that the model repeats for ever: one pass per block, after which nothing is read twice.
TEST(Cascade, ABlockThatIsGuessedRightTakesOnePass) {
  TableModel model({.vocabulary_size = 2, .peakedness = 30});
  DrafterSetup setup;
  setup.rule = Rule::kGreedy;
  setup.sampling.temperature = 0;
  setup.max_length = 150;
  auto drafter = MakeCascade(model, setup, nullptr, /*query=*/3);
  Tokens text = {0, 1};
  while (text.size() < 40) text.push_back(sampling::ArgMax(model.LogitsAfter(text), 2));
  Accept(*drafter, 0, text);
  Propose(*drafter, 1);
  const int64_t passes = model.passes(), rows = model.rows();
  const CandidateTree block = Propose(*drafter, 8);
  EXPECT_EQ(model.passes() - passes, 1);
  EXPECT_EQ(model.rows() - rows, 8) << "the last token, and seven guesses";
  Tokens next = block.tokens;
  for (uint32_t token : block.tokens) {
    EXPECT_EQ(token, sampling::ArgMax(model.LogitsAfter(text), 2));
    text.push_back(token);
  }
  next.push_back(sampling::ArgMax(model.LogitsAfter(text), 2));
  Accept(*drafter, 40, next);
  Propose(*drafter, 1);
  EXPECT_EQ(model.rows() - rows, 8 + 2);
}

// An id that the model has not is not a guess, nor is what would follow it.
TEST(Cascade, GuessesAreTheModelsTokens) {
  TableModel model({});
  auto table = std::make_shared<FixedTable>(
      std::map<uint32_t, std::vector<Successor>>{{1, {{100, 3}, {2, 2}}}, {100, {{1, 1}}}});
  DrafterSetup setup;
  setup.rule = Rule::kGreedy;
  setup.sampling.temperature = 0;
  setup.max_length = 150;
  auto cascade = MakeCascade(model, setup, table);
  auto alone = Make(model, setup);
  for (Drafter* drafter : {cascade.get(), alone.get()}) Accept(*drafter, 0, {4, 1});
  ExpectSameBlock(Propose(*cascade, 5), Propose(*alone, 5));
}

// Doubt ends its blocks where it ends those of the model alone.
TEST(Cascade, DoubtEndsItsBlocksAsThoseOfTheModel) {
  std::mt19937 random(11);
  size_t shorter = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    TableModel model({.peakedness = 2});
    const DrafterSetup setup =
        seed % 2 == 0 ? AllOptions(seed, Rule::kCoupled) : AllOptions(seed, Rule::kGreedy, 0);
    auto cascade = MakeCascade(model, setup, Table());
    auto alone = Make(model, setup);
    Tokens text = RandomTokens(random, 2 + random() % 40);
    for (Drafter* drafter : {cascade.get(), alone.get()}) Accept(*drafter, 0, text);
    for (int round = 0; round < 8; ++round) {
      const BlockShape shape{.max_draft_tokens = 1 + static_cast<uint32_t>(random() % 8),
                             .min_confidence = 0.1 * static_cast<double>(random() % 8)};
      const CandidateTree block = *alone->ProposeTree(shape);
      ExpectSameBlock(*cascade->ProposeTree(shape), block);
      shorter += block.size() < shape.max_draft_tokens ? 1 : 0;
      Go(random, block, text, {cascade.get(), alone.get()});
    }
  }
  EXPECT_GT(shorter, 100u);
}

TEST(Cascade, MakesNoTrees) {
  TableModel model({});
  EXPECT_FALSE(CascadeFactory(model, {}, {}).trees);
  EXPECT_TRUE(CascadeFactory(model, {}, {}).samples);
  EXPECT_EQ(CascadeFactory(model, {}, {}).name, "cascade");
}

}  // namespace
}  // namespace tandem::draft_service::cascade_test
