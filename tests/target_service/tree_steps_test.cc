// Trees of draft tokens at the target: each node is judged as at the end of its own path, what
// stands stays in the cache, and what a sequence may not have is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "common/acceptance/tree.h"
#include "tests/target_service/harness.h"

namespace tandem::target_service::tree_steps_test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kNodes = 12;

internal::v1::SequenceOptions TreeOptions(float temperature, uint64_t seed) {
  internal::v1::SequenceOptions options = SampledOptions(seed, temperature);
  options.set_rule(temperature == 0 ? v1::RULE_GREEDY : v1::RULE_COUPLED);
  options.set_max_nodes(kNodes);
  options.set_prompt_tokens(3);
  options.mutable_sampling()->set_frequency_penalty(1.5f);
  options.mutable_sampling()->set_presence_penalty(0.8f);
  options.mutable_sampling()->set_repetition_penalty(1.6f);
  options.mutable_sampling()->set_min_tokens(20);
  options.add_stop_token_ids(2);
  options.mutable_logprobs()->set_top(2);
  options.mutable_logprobs()->set_processed(true);
  return options;
}

struct Tree {
  std::vector<uint32_t> tokens, parents;

  std::vector<uint32_t> Path(uint32_t node) const {
    std::vector<uint32_t> path;
    for (; node > 0; node = parents[node - 1]) path.push_back(tokens[node - 1]);
    std::reverse(path.begin(), path.end());
    return path;
  }
  void PutInto(internal::v1::Step& step) const {
    step.mutable_candidates()->Add(tokens.begin(), tokens.end());
    step.mutable_parents()->Add(parents.begin(), parents.end());
  }
};

// The target's own tokens after `text`, so that a tree can have them.
std::vector<uint32_t> Own(const Harness& target, const internal::v1::SequenceOptions& options,
                          std::vector<uint32_t> text, size_t count) {
  std::vector<uint32_t> own;
  while (own.size() < count) {
    own.push_back(*target.Expected(options, text, {})[0].next_token);
    text.push_back(own.back());
  }
  return own;
}

// Some of the target's own tokens, among others, at any place; never a chain.
Tree TreeAround(const std::vector<uint32_t>& own, std::mt19937& random) {
  Tree tree;
  uint32_t end = 0;
  for (const uint32_t token : own) {
    std::vector<uint32_t> siblings = {token};
    for (int i = 0; i < 2; ++i) {
      const uint32_t other = random() % 8;
      if (std::find(siblings.begin(), siblings.end(), other) != siblings.end()) continue;
      siblings.insert(siblings.begin() + random() % (siblings.size() + 1), other);
    }
    uint32_t next = 0;
    for (const uint32_t sibling : siblings) {
      tree.tokens.push_back(sibling);
      tree.parents.push_back(end);
      if (sibling == token) next = static_cast<uint32_t>(tree.tokens.size());
    }
    end = next;
  }
  // A late child of the first node that is there.
  const auto above = static_cast<uint32_t>(
      std::find(tree.tokens.begin(), tree.tokens.end(), own[0]) - tree.tokens.begin() + 1);
  uint32_t token = 0;
  const auto is_taken = [&] {
    for (size_t i = 0; i < tree.tokens.size(); ++i) {
      if (tree.parents[i] == above && tree.tokens[i] == token) return true;
    }
    return false;
  };
  while (is_taken()) ++token;
  tree.tokens.push_back(token);
  tree.parents.push_back(above);
  return tree;
}

void Advance(const internal::v1::Verdict& verdict, const Tree& tree, std::vector<uint32_t>& text) {
  std::vector<acceptance::Entry> entries;
  for (const internal::v1::Entry& entry : verdict.entries()) {
    entries.push_back({entry.accept_probability(), std::nullopt});
    if (entry.has_next_token()) entries.back().next_token = entry.next_token();
  }
  ASSERT_TRUE(acceptance::ValidateTreeEntries(entries, tree.tokens, tree.parents, 8).ok());
  const acceptance::Decision decision = acceptance::DecideTree(entries, tree.parents);
  const std::vector<uint32_t> path = tree.Path(decision.last_node());
  text.insert(text.end(), path.begin(), path.end());
  text.push_back(decision.next_token);
}

// Penalties, minimum and noise are those of the node's own path, also after the target was told the
// whole text anew, by this sequence or by another one.
TEST(TreeSteps, EachNodeIsJudgedAsAtTheEndOfItsPath) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Harness target({}, {.vocabulary_size = 8});
    auto stream = target.Connect();
    const internal::v1::SequenceOptions options = TreeOptions(seed % 2 == 0 ? 0 : 1, 11 + seed);
    std::vector<uint32_t> text = {1, 2, 3};
    uint64_t sequence = 1;
    uint32_t keep = 0;
    size_t deepest = 0;
    for (uint64_t round = 1; round <= 12; ++round) {
      if (random() % 3 == 0) keep = 0;
      if (keep == 0 && random() % 2 == 0) ++sequence;
      const std::vector<uint32_t> own = Own(target, options, text, 3);
      Tree tree = TreeAround(own, random);
      tree.tokens.resize(std::min<size_t>(tree.tokens.size(), kNodes));
      tree.parents.resize(tree.tokens.size());
      internal::v1::Step step = MakeStep(sequence, round, text, keep);
      if (keep == 0) *step.mutable_options() = options;
      tree.PutInto(step);
      const int64_t rows = target.model->rows();
      const internal::v1::Verdict verdict = target.Ask(stream, step);
      ASSERT_EQ(verdict.status(), internal::v1::STATUS_OK) << verdict.ShortDebugString();
      ASSERT_EQ(verdict.entries_size(), static_cast<int>(tree.tokens.size()) + 1);
      // What stood of the tree before is in the cache: a row for the token after it, and the nodes.
      if (keep > 0) {
        EXPECT_EQ(target.model->rows() - rows, 1 + static_cast<int64_t>(tree.tokens.size()));
      }
      for (uint32_t node = 0; node <= tree.tokens.size(); ++node) {
        std::vector<uint32_t> before = text;
        const std::vector<uint32_t> path = tree.Path(node);
        before.insert(before.end(), path.begin(), path.end());
        const uint32_t draw = *target.Expected(options, before, {})[0].next_token;
        const internal::v1::Entry& entry = verdict.entries(static_cast<int>(node));
        bool goes_on = false;
        bool has_child = false;
        for (uint32_t child = 1; child <= tree.tokens.size(); ++child) {
          if (tree.parents[child - 1] != node) continue;
          has_child = true;
          const bool stands = tree.tokens[child - 1] == draw;
          goes_on = goes_on || stands;
          EXPECT_EQ(verdict.entries(static_cast<int>(child)).accept_probability(), stands ? 1 : 0);
        }
        ASSERT_EQ(entry.has_next_token(), !goes_on) << round << " " << node;
        if (!goes_on) {
          EXPECT_EQ(entry.next_token(), draw) << round << " " << node;
        }
        EXPECT_EQ(entry.logprobs().has_candidate(), has_child);
        if (goes_on) {
          const double p = target.P(options, before)(draw);
          EXPECT_NEAR(entry.logprobs().candidate(), std::log(p), 1e-4);
        }
      }
      keep = static_cast<uint32_t>(text.size());
      const size_t before = text.size();
      Advance(verdict, tree, text);
      deepest = std::max(deepest, text.size() - before);
    }
    EXPECT_EQ(deepest, 4u) << "whole paths stood";
  }
}

// Its tree is forgotten but for what stands; a client that goes on elsewhere gets the same bits.
TEST(TreeSteps, AClientMayGoOnElsewhere) {
  Harness target({}, {.vocabulary_size = 8});
  auto stream = target.Connect();
  const internal::v1::SequenceOptions options = TreeOptions(1, 3);
  const std::vector<uint32_t> prompt = {1, 2, 3};
  const std::vector<uint32_t> own = Own(target, options, prompt, 2);
  const Tree tree{{(own[0] + 1) % 8, own[0], own[1]}, {0, 0, 2}};
  internal::v1::Step step = MakeStep(1, 1, prompt, 0);
  *step.mutable_options() = options;
  tree.PutInto(step);
  ASSERT_EQ(target.Ask(stream, step).status(), internal::v1::STATUS_OK);
  std::vector<uint32_t> elsewhere = prompt;
  elsewhere.insert(elsewhere.end(), {tree.tokens[0], 5, 4});
  const internal::v1::Verdict verdict = target.Ask(stream, MakeStep(1, 2, elsewhere, 3, {6}));
  ASSERT_EQ(verdict.status(), internal::v1::STATUS_OK);
  EXPECT_TRUE(SameEntries(verdict, target.Expected(options, elsewhere, {6})));
}

// A long prompt's last rows and a tree are in one pass, and a pass has chains beside trees.
TEST(TreeSteps, WithAPromptAndBesideChains) {
  Options service;
  service.pass_rows = 16;
  Harness target(service, {.vocabulary_size = 8});
  auto stream = target.Connect();
  const internal::v1::SequenceOptions options = TreeOptions(0, 3);
  std::vector<uint32_t> prompt(61);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<uint32_t>(i * i % 8);
  std::mt19937 random(6);
  const Tree tree = TreeAround(Own(target, options, prompt, 3), random);
  internal::v1::Step with_tree = MakeStep(1, 1, prompt, 0);
  *with_tree.mutable_options() = options;
  tree.PutInto(with_tree);
  const internal::v1::Step chain = FirstStep(2, prompt, {4, 5});
  Harness::Send(stream, {with_tree, chain});
  target.RunAll();
  std::vector<internal::v1::Verdict> verdicts = stream.sink->Take();
  ASSERT_EQ(verdicts.size(), 2u);
  for (const internal::v1::Verdict& verdict : verdicts) {
    ASSERT_EQ(verdict.status(), internal::v1::STATUS_OK) << verdict.ShortDebugString();
    if (verdict.sequence() == 2) {
      EXPECT_TRUE(SameEntries(verdict, target.Expected(SampledOptions(), prompt, {4, 5})));
      continue;
    }
    std::vector<uint32_t> text = prompt;
    Advance(verdict, tree, text);
    const std::vector<uint32_t> own = Own(target, options, prompt, 4);
    EXPECT_EQ(std::vector<uint32_t>(text.begin() + 61, text.end()), own);
  }
}

TEST(TreeSteps, WelcomeTellsThem) {
  Harness target;
  const v1::Welcome welcome = *target.Connect().sink->welcome();
  EXPECT_EQ(welcome.limits().max_nodes(), Options().max_nodes);
  ASSERT_EQ(welcome.features_size(), 1);
  EXPECT_EQ(welcome.features(0), "trees");
  Options without;
  without.max_nodes = 0;
  const v1::Welcome other = *Harness(without).Connect().sink->welcome();
  EXPECT_EQ(other.limits().max_nodes(), 0u);
  EXPECT_EQ(other.features_size(), 0);
}

TEST(TreeSteps, WhatASequenceMayNotHaveIsRefusedByName) {
  Harness target({}, {.vocabulary_size = 8});
  auto stream = target.Connect();
  const std::vector<uint32_t> prompt = {1, 2, 3};
  const Tree tree{{1, 2, 3}, {0, 0, 1}};
  struct Case {
    internal::v1::SequenceOptions options;
    std::string field, says;
  };
  internal::v1::SequenceOptions small = TreeOptions(1, 1);
  small.set_max_nodes(2);
  const std::vector<Case> cases = {
      {SampledOptions(), "parents", "rule speculative has no trees"},
      {small, "candidates", "above options.max_nodes, 2"},
  };
  uint64_t sequence = 0;
  for (const Case& test : cases) {
    internal::v1::Step step = FirstStep(++sequence, prompt, {}, test.options);
    tree.PutInto(step);
    const internal::v1::Verdict verdict = target.Ask(stream, step);
    EXPECT_EQ(verdict.status(), internal::v1::STATUS_INVALID);
    EXPECT_EQ(verdict.problem().field(), test.field);
    EXPECT_THAT(verdict.problem().message(), HasSubstr(test.says));
  }
  Options service;
  service.max_nodes = 0;
  Harness without(service, {.vocabulary_size = 8});
  auto other = without.Connect();
  const internal::v1::Verdict verdict =
      without.Ask(other, FirstStep(1, prompt, {}, TreeOptions(1, 1)));
  EXPECT_EQ(verdict.problem().field(), "options.max_nodes");
  EXPECT_THAT(verdict.problem().message(), HasSubstr("not served here"));
}

}  // namespace
}  // namespace tandem::target_service::tree_steps_test
