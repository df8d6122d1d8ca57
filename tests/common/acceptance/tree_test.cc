// The walk down a tree of draft tokens: it commits what the target draws alone, whatever the tree
// is.
#include "common/acceptance/tree.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/acceptance/greedy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/acceptance/round_world.h"
#include "tests/support/chi_square.h"

namespace tandem::acceptance::tree_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Tree {
  Tokens tokens;
  std::vector<uint32_t> parents;

  uint32_t Add(uint32_t token, uint32_t parent) {
    tokens.push_back(token);
    parents.push_back(parent);
    return static_cast<uint32_t>(tokens.size());
  }
  // From the root to the node.
  Tokens Path(uint32_t node) const {
    Tokens path;
    for (; node > 0; node = parents[node - 1]) path.push_back(tokens[node - 1]);
    std::reverse(path.begin(), path.end());
    return path;
  }
};

// Siblings are different tokens.
Tree RandomTree(std::mt19937& random, size_t nodes, uint32_t vocabulary) {
  Tree tree;
  std::map<std::pair<uint32_t, uint32_t>, bool> taken;
  while (tree.tokens.size() < nodes) {
    const uint32_t parent = random() % (tree.tokens.size() + 1);
    const uint32_t token = random() % vocabulary;
    if (!std::exchange(taken[{parent, token}], true)) tree.Add(token, parent);
  }
  return tree;
}

TEST(TreeTest, TheWalkFollowsTheTargetsOwnTokens) {
  //        0 ── 1: 5 ── 3: 7
  //          └─ 2: 6 ── 4: 8 ── 6: 9
  //                  └─ 5: 7
  const Tokens tokens = {5, 6, 7, 8, 7, 9};
  const std::vector<uint32_t> parents = {0, 0, 1, 2, 2, 4};
  std::vector<Entry> entries =
      JudgeTree(std::vector<uint32_t>{6, 0, 7, 1, 2, 3, 4}, tokens, parents);
  ASSERT_TRUE(ValidateTreeEntries(entries, tokens, parents, 10).ok());
  Decision decision = DecideTree(entries, parents);
  EXPECT_THAT(decision.path, ElementsAre(2, 5));
  EXPECT_EQ(decision.accepted, 2u);
  EXPECT_EQ(decision.last_node(), 5u);
  EXPECT_EQ(decision.next_token, 3u);
  EXPECT_FALSE(decision.rejected) << "it ended at a leaf";
  decision =
      DecideTree(JudgeTree(std::vector<uint32_t>{6, 0, 1, 1, 2, 3, 4}, tokens, parents), parents);
  EXPECT_THAT(decision.path, ElementsAre(2));
  EXPECT_EQ(decision.next_token, 1u);
  EXPECT_TRUE(decision.rejected);
  decision =
      DecideTree(JudgeTree(std::vector<uint32_t>{9, 0, 1, 1, 2, 3, 4}, tokens, parents), parents);
  EXPECT_EQ(decision.last_node(), 0u);
  EXPECT_EQ(decision.next_token, 9u);
}

TEST(TreeTest, AChainSpelledOutIsTheChain) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const size_t size = 1 + random() % 6;
    Tokens draws(size + 1), tokens(size);
    for (uint32_t& draw : draws) draw = random() % 2;
    for (uint32_t& token : tokens) token = random() % 2;
    std::vector<uint32_t> parents(size);
    std::iota(parents.begin(), parents.end(), 0u);
    const std::vector<Entry> chain = JudgeGreedy(draws, tokens);
    const std::vector<Entry> tree = JudgeTree(draws, tokens, parents);
    ASSERT_EQ(chain.size(), tree.size());
    for (size_t i = 0; i < chain.size(); ++i) {
      EXPECT_EQ(chain[i].accept_probability, tree[i].accept_probability);
      EXPECT_EQ(chain[i].next_token, tree[i].next_token);
    }
    const Decision of_chain = Decide(Rule::kGreedy, chain, std::vector<double>(size, 0.5));
    const Decision of_tree = DecideTree(tree, parents);
    EXPECT_EQ(of_chain.accepted, of_tree.accepted);
    EXPECT_EQ(of_chain.next_token, of_tree.next_token);
    EXPECT_EQ(of_chain.rejected, of_tree.rejected);
    EXPECT_EQ(of_chain.last_node(), of_tree.last_node());
  }
}

// The same tree with its nodes in another order that has parents before their children.
Tree Shuffled(const Tree& tree, std::mt19937& random) {
  Tree shuffled;
  std::vector<uint32_t> renamed(tree.tokens.size() + 1, UINT32_MAX);
  renamed[0] = 0;
  while (shuffled.tokens.size() < tree.tokens.size()) {
    const size_t i = random() % tree.tokens.size();
    if (renamed[i + 1] != UINT32_MAX || renamed[tree.parents[i]] == UINT32_MAX) continue;
    renamed[i + 1] = shuffled.Add(tree.tokens[i], renamed[tree.parents[i]]);
  }
  return shuffled;
}

// What a round commits. `sampling`: the target's options.
Tokens Round(World& world, const Tokens& text, const Tree& tree, Rule rule, uint64_t seed) {
  std::vector<sampling::Distribution> p;
  for (uint32_t node = 0; node <= tree.tokens.size(); ++node) {
    Tokens before = text;
    const Tokens path = tree.Path(node);
    before.insert(before.end(), path.begin(), path.end());
    p.push_back(world.P(before, {}));
  }
  JudgeInput input;
  input.rule = rule;
  input.key = {seed, 0, static_cast<uint32_t>(text.size())};
  input.p = p;
  input.candidates = tree.tokens;
  input.parents = tree.parents;
  const std::vector<Entry> entries = Judge(input);
  EXPECT_TRUE(ValidateTreeEntries(entries, tree.tokens, tree.parents, 4).ok());
  const Decision decision = DecideTree(entries, tree.parents);
  Tokens committed = tree.Path(decision.last_node());
  committed.push_back(decision.next_token);
  return committed;
}

Setting SettingOf(Rule rule) {
  Setting setting{.rule = rule};
  setting.options.temperature = rule == Rule::kGreedy ? 0 : 1;
  setting.options.frequency_penalty = 0.4;
  return setting;
}

TEST(TreeTest, TheOrderOfSiblingsIsIrrelevant) {
  std::mt19937 random(2);
  for (const Rule rule : {Rule::kGreedy, Rule::kCoupled}) {
    World world(SettingOf(rule));
    for (uint64_t seed = 0; seed < 150; ++seed) {
      const Tree tree = RandomTree(random, 10, 4);
      const Tokens text(random() % 4, 1);
      EXPECT_EQ(Round(world, text, tree, rule, seed),
                Round(world, text, Shuffled(tree, random), rule, seed));
    }
  }
}

// Trees of any kind, whose drafter knows the noise and p, give plain decoding's text.
TEST(TreeTest, TheTextIsThatOfPlainDecoding) {
  constexpr size_t kLength = 24;
  std::mt19937 random(3);
  size_t rounds = 0, texts = 0;
  for (const Rule rule : {Rule::kGreedy, Rule::kCoupled}) {
    World world(SettingOf(rule));
    for (uint64_t seed = 0; seed < 40; ++seed, ++texts) {
      Tokens plain;
      while (plain.size() < kLength + 8) {
        plain.push_back(
            sampling::DrawRace(world.P(plain, {}), seed, 0, static_cast<uint32_t>(plain.size())));
      }
      Tokens text;
      while (text.size() < kLength) {
        Tree tree = RandomTree(random, 4, 4);
        uint32_t node = 0;  // the text's own path, as far as a chance lets it be there
        for (size_t i = text.size(); random() % 4 != 0 && tree.tokens.size() < 9; ++i) {
          uint32_t child = 0;
          for (uint32_t n = 1; n <= tree.tokens.size(); ++n) {
            if (tree.parents[n - 1] == node && tree.tokens[n - 1] == plain[i]) child = n;
          }
          node = child != 0 ? child : tree.Add(plain[i], node);
        }
        const Tokens committed = Round(world, text, tree, rule, seed);
        text.insert(text.end(), committed.begin(), committed.end());
        ++rounds;
      }
      text.resize(kLength);
      EXPECT_EQ(text, Tokens(plain.begin(), plain.begin() + kLength)) << Name(rule) << seed;
    }
  }
  EXPECT_LT(rounds, texts * kLength / 2) << "the trees are accepted";
}

// ---- the law ----

constexpr int kTexts = 6000;

// Two children of the root, two of each of these.
Tree Binary() {
  Tree tree;
  for (const uint32_t token : {0u, 1u}) tree.Add(token, 0);
  for (const uint32_t parent : {1u, 2u}) {
    for (const uint32_t token : {1u, 2u}) tree.Add(token, parent);
  }
  return tree;
}

using RoundFunction = std::function<Tokens(World&, const Tokens& text, const Tree&, uint64_t seed)>;

testing::ChiSquare LawOf(const RoundFunction& round) {
  Setting setting{.rule = Rule::kCoupled};
  setting.horizon = 3;
  World world(setting);
  std::vector<int64_t> counts(64);
  const Tree tree = Binary();
  for (uint64_t seed = 0; seed < kTexts; ++seed) {
    Tokens text;
    while (text.size() < 3) {
      const Tokens committed = round(world, text, tree, seed);
      text.insert(text.end(), committed.begin(), committed.end());
    }
    ++counts[16 * text[0] + 4 * text[1] + text[2]];
  }
  return testing::GoodnessOfFit(TargetLaw(setting), counts);
}

TEST(TreeTest, TheJointLawIsTheTargets) {
  const testing::ChiSquare fit =
      LawOf([](World& world, const Tokens& text, const Tree& tree, uint64_t seed) {
        return Round(world, text, tree, Rule::kCoupled, seed);
      });
  EXPECT_TRUE(fit.Passes()) << fit.ToString();
}

// The mistake that suggests itself: every path is sampled by itself, and the longest match wins.
// What the draft proposed is then too frequent.
TEST(TreeTest, ControlTheLongestMatchAmongIndependentSamples) {
  const testing::ChiSquare fit =
      LawOf([](World& world, const Tokens& text, const Tree& tree, uint64_t seed) {
        Tokens longest;
        for (uint32_t leaf = 3; leaf <= tree.tokens.size(); ++leaf) {
          const Tokens path = tree.Path(leaf);
          Tokens committed;
          for (size_t i = 0; i <= path.size(); ++i) {
            Tokens before = text;
            before.insert(before.end(), committed.begin(), committed.end());
            committed.push_back(sampling::DrawRace(world.P(before, {}), seed, /*sample=*/leaf,
                                                   static_cast<uint32_t>(before.size())));
            if (i == path.size() || committed[i] != path[i]) break;
          }
          if (committed.size() > longest.size()) longest = committed;
        }
        return longest;
      });
  EXPECT_TRUE(fit.ControlIsCaught()) << fit.ToString();
}

// ---- why the ratio rules have no trees whose siblings are chosen by their values ----

// Two siblings are tried in order by the ratio rule: the first against p, the second against what
// is left of p (SpecInfer, arXiv 2305.09781; Chen et al., arXiv 2402.12374). The law of the token
// that comes of it, all draws enumerated.
enum class Siblings : uint8_t {
  kInTheOrderDrawn,
  kLikeliestFirst,  // the order depends on the draws
  kDistinct,        // the second is drawn anew until it differs, and tested as if it were not
  kOneUniform,      // one accept number for both
};

using Weights = std::vector<double>;

Weights LeftOver(const Weights& p, const Weights& q) {
  Weights left(p.size());
  for (size_t x = 0; x < p.size(); ++x) left[x] = std::max(p[x] - q[x], 0.0);
  const double sum = std::accumulate(left.begin(), left.end(), 0.0);
  if (sum == 0) return p;  // nothing is ever rejected
  for (double& weight : left) weight /= sum;
  return left;
}

Weights LawOfSiblings(const Weights& p, const Weights& q, Siblings how) {
  Weights law(p.size());
  const Weights second_p = LeftOver(p, q), last_p = LeftOver(second_p, q);
  for (uint32_t x = 0; x < p.size(); ++x) {
    for (uint32_t y = 0; y < p.size(); ++y) {
      double chance = q[x] * q[y];
      if (how == Siblings::kDistinct) chance = x == y ? 0 : q[x] * q[y] / (1 - q[x]);
      uint32_t a = x, b = y;
      if (how == Siblings::kLikeliestFirst && p[b] / q[b] > p[a] / q[a]) std::swap(a, b);
      const double accept_a = std::min(1.0, p[a] / q[a]);
      const double accept_b = std::min(1.0, second_p[b] / q[b]);
      const double then_b = how == Siblings::kOneUniform ? std::max(0.0, accept_b - accept_a)
                                                         : (1 - accept_a) * accept_b;
      law[a] += chance * accept_a;
      law[b] += chance * then_b;
      for (uint32_t z = 0; z < p.size(); ++z) {
        law[z] += chance * (1 - accept_a - then_b) * last_p[z];
      }
    }
  }
  return law;
}

TEST(TreeTest, ControlSiblingsUnderTheRatioRule) {
  const Weights p = {0.5, 0.3, 0.15, 0.05}, q = {0.2, 0.25, 0.25, 0.3};
  const auto distance = [&](Siblings how) {
    const Weights law = LawOfSiblings(p, q, how);
    double sum = 0;
    for (size_t x = 0; x < p.size(); ++x) sum += std::abs(law[x] - p[x]) / 2;
    return sum;
  };
  EXPECT_LT(distance(Siblings::kInTheOrderDrawn), 1e-12);
  EXPECT_GT(distance(Siblings::kLikeliestFirst), 1e-2) << "an order that depends on the draws";
  EXPECT_GT(distance(Siblings::kDistinct), 1e-2) << "siblings that are kept apart";
  EXPECT_GT(distance(Siblings::kOneUniform), 1e-2) << "a shared accept number";
}

// ---- what comes over a wire ----

TEST(TreeTest, BrokenVerdictsAreNamed) {
  const Tokens tokens = {5, 6, 7};
  const std::vector<uint32_t> parents = {0, 0, 1};
  const std::vector<Entry> good = JudgeTree(std::vector<uint32_t>{5, 1, 2, 3}, tokens, parents);
  ASSERT_TRUE(ValidateTreeEntries(good, tokens, parents, 8).ok());
  const std::vector<std::pair<std::string, std::function<void(std::vector<Entry>&)>>> cases = {
      {"3 entries", [](auto& entries) { entries.pop_back(); }},
      {"0 or 1", [](auto& entries) { entries[2].accept_probability = 0.5; }},
      {"two children", [](auto& entries) { entries[2].accept_probability = 1; }},
      {"a child of it stands", [](auto& entries) { entries[0].next_token = 4; }},
      {"no next token", [](auto& entries) { entries[3].next_token.reset(); }},
      {"no child of it stands", [](auto& entries) { entries[1].accept_probability = 0; }},
      {"vocabulary", [](auto& entries) { entries[2].next_token = 8; }},
      {"does not stand", [](auto& entries) { entries[1].next_token = 7; }},
  };
  for (const auto& [says, spoil] : cases) {
    std::vector<Entry> entries = good;
    spoil(entries);
    const absl::Status status = ValidateTreeEntries(entries, tokens, parents, 8);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << says;
    EXPECT_THAT(std::string(status.message()), HasSubstr(says));
  }
}

TEST(TreeTest, GreedyAndCoupledHaveTrees) {
  for (const Rule rule : kRules) {
    EXPECT_EQ(HasTrees(rule), rule == Rule::kGreedy || rule == Rule::kCoupled) << Name(rule);
  }
}

}  // namespace
}  // namespace tandem::acceptance::tree_test
