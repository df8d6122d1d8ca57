// What an orchestrator decides of a verdict, by rule, and which verdicts it takes for none.
#include "orchestrator/accept/acceptor.h"

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/accept/verdict_logprobs.h"
#include "orchestrator/verify/verify_session.h"

namespace tandem::orchestrator {
namespace {

using acceptance::Entry;
using acceptance::Rule;
using ::testing::HasSubstr;

constexpr uint32_t kVocabulary = 8;

struct Probe {
  explicit Probe(Rule rule) {
    request.rule = rule;
    request.seed = 42;
  }
  absl::StatusOr<acceptance::Decision> Decide(const std::vector<Entry>& entries,
                                              uint32_t committed = 5) {
    VerifyReply verdict;
    verdict.entries = entries;
    CandidateTree block;
    block.id = base::BlockId{1};
    block.tokens.assign(entries.size() - 1, 0);
    return Acceptor(request, {}).Decide(committed, block, verdict, kVocabulary);
  }
  GenerationRequest request;
};

TEST(Acceptor, EveryRuleButBlockEndsBeforeTheFirstThatFails) {
  for (Rule rule : {Rule::kGreedy, Rule::kSpeculative, Rule::kCoupled, Rule::kLenient}) {
    Probe probe(rule);
    auto decision = probe.Decide({{1, 4}, {1, 5}, {0, 6}, {1, 7}});
    ASSERT_TRUE(decision.ok()) << decision.status();
    EXPECT_EQ(decision->accepted, 1u);
    EXPECT_EQ(decision->next_token, 5u);
    EXPECT_TRUE(decision->rejected);
    decision = probe.Decide({{1, 4}, {1, 5}, {1, 6}});
    EXPECT_EQ(decision->accepted, 2u);
    EXPECT_EQ(decision->next_token, 6u);
    EXPECT_FALSE(decision->rejected);
  }
}

TEST(Acceptor, BlockEndsAtTheLastThatPasses) {
  Probe probe(Rule::kBlock);
  auto decision = probe.Decide({{1, 4}, {0, {}}, {0, 5}, {1, 6}, {0, 7}});
  ASSERT_TRUE(decision.ok()) << decision.status();
  EXPECT_EQ(decision->accepted, 3u) << "what failed before it stands with it";
  EXPECT_EQ(decision->next_token, 6u);
  EXPECT_TRUE(decision->rejected);
  decision = probe.Decide({{1, 4}, {0, {}}, {1, 5}});
  EXPECT_EQ(decision->accepted, 2u);
  EXPECT_FALSE(decision->rejected);
  decision = probe.Decide({{1, 4}, {0, 5}, {0, 6}});
  EXPECT_EQ(decision->accepted, 0u);
  EXPECT_EQ(decision->next_token, 4u);
}

// The same verdict is good under one rule and broken under another.
TEST(Acceptor, WhichEntriesMayLackATokenDependsOnTheRule) {
  const std::vector<Entry> entries = {{1, 4}, {0, {}}, {0.5, 5}};
  EXPECT_TRUE(Probe(Rule::kBlock).Decide(entries).ok());
  auto decision = Probe(Rule::kSpeculative).Decide(entries);
  ASSERT_FALSE(decision.ok());
  EXPECT_EQ(decision.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(decision.status().message()), HasSubstr("broken verdict"));
  EXPECT_FALSE(Probe(Rule::kBlock).Decide({{1, 4}, {0.5, {}}, {0.5, 5}}).ok());
}

TEST(Acceptor, EachSampleDrawsUniformsOfItsOwn) {
  int differing = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    uint32_t accepted[2];
    for (uint32_t sample : {0u, 1u}) {
      Probe probe(Rule::kSpeculative);
      probe.request.seed = seed;
      probe.request.sample_index = sample;
      accepted[sample] = probe.Decide({{1, 4}, {0.5, 5}, {0.5, 6}, {0.5, 7}})->accepted;
    }
    differing += accepted[0] != accepted[1] ? 1 : 0;
  }
  EXPECT_GT(differing, 10);
}

TEST(Acceptor, EachRoundDrawsUniformsOfItsOwn) {
  int differing = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    uint32_t accepted[2];
    for (uint32_t round : {0u, 1u}) {
      Probe probe(Rule::kSpeculative);
      probe.request.seed = seed;
      accepted[round] =
          probe.Decide({{1, 4}, {0.5, 5}, {0.5, 6}, {0.5, 7}}, /*committed=*/10 + 4 * round)
              ->accepted;
    }
    differing += accepted[0] != accepted[1] ? 1 : 0;
  }
  EXPECT_GT(differing, 10);
}

// ---- log probabilities ----

using Nodes = std::vector<sampling::NodeLogprobs>;

Nodes Good() { return {{-1, -2, {{1, -1}}}, {-3, {}, {{2, -1}}}, {{}, -4, {{3, -1}}}}; }
const std::vector<Entry> kEntries = {{1, 4}, {1, {}}, {1, 5}};

TEST(VerdictLogprobs, CandidatesHaveTheirOwnAndTheTokenAfterThemItsOwn) {
  ASSERT_TRUE(CheckLogprobs({}, kEntries, Good(), 1, kVocabulary).ok());
  std::vector<TokenLogprobs> tokens = CommittedLogprobs({2, 5, false}, Good());
  ASSERT_EQ(tokens.size(), 3u);
  EXPECT_EQ(tokens[0].logprob, -1);
  EXPECT_EQ(tokens[1].logprob, -3);
  EXPECT_EQ(tokens[2].logprob, -4);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(tokens[i].top[0].token, i + 1);
  tokens = CommittedLogprobs({0, 4, true}, Good());
  ASSERT_EQ(tokens.size(), 1u);
  EXPECT_EQ(tokens[0].logprob, -2) << "that of the recovered token";
}

TEST(VerdictLogprobs, NeverIsALogProbability) {
  Nodes nodes = Good();
  nodes[0].candidate = -std::numeric_limits<float>::infinity();  // an id that no token has
  EXPECT_TRUE(CheckLogprobs({}, kEntries, nodes, 1, kVocabulary).ok());
}

TEST(VerdictLogprobs, WhatIsWrongIsNamed) {
  using Change = std::function<void(Nodes&)>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::pair<Change, std::string>> bad = {
      {[](Nodes& n) { n.pop_back(); }, "2 nodes for 3 entries"},
      {[](Nodes& n) { n[0].candidate.reset(); }, "node 0: the log probability of its candidate"},
      {[](Nodes& n) { n[0].next_token.reset(); }, "node 0: the log probability of its next token"},
      {[](Nodes& n) { n[1].next_token = -1; }, "node 1: the log probability of its next token"},
      {[](Nodes& n) { n[2].candidate = -1; }, "node 2: the log probability of its candidate"},
      {[](Nodes& n) { n[0].candidate = 0.1f; }, "0.1; it is at most 0"},
      {[&](Nodes& n) { n[0].candidate = nan; }, "nan; it is at most 0"},
      {[](Nodes& n) {
         n[2].top.push_back({1, -1});
       },
       "node 2: 2 alternatives; at most 1"},
      {[](Nodes& n) { n[2].top[0].token = kVocabulary; }, "alternative 8"},
      {[&](Nodes& n) { n[2].top[0].logprob = nan; }, "alternative 3"},
  };
  for (const auto& [change, part] : bad) {
    Nodes nodes = Good();
    change(nodes);
    const absl::Status status = CheckLogprobs({}, kEntries, nodes, 1, kVocabulary);
    EXPECT_FALSE(status.ok()) << part;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

}  // namespace
}  // namespace tandem::orchestrator
