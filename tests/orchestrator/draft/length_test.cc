#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "common/theory/round_time.h"
#include "common/theory/speedup.h"
#include "orchestrator/draft/length/acceptance_estimate.h"
#include "orchestrator/draft/length/auto.h"
#include "orchestrator/draft/length/fixed.h"
#include "orchestrator/draft/length/heuristic.h"
#include "orchestrator/draft/length/round_model.h"

namespace tandem::orchestrator::length_test {
namespace {

absl::Duration Unknown(uint32_t /*rows*/) { return absl::ZeroDuration(); }

LengthChoice Next(LengthPolicy& policy) { return policy.Next({Unknown}); }

RoundRecord Round(uint32_t drafted, uint32_t accepted) {
  RoundRecord round;
  round.asked_tokens = round.draft_tokens = drafted;
  round.accepted_tokens = accepted;
  round.tokens = accepted + 1;
  return round;
}

TEST(FixedLength, StaysAsItIs) {
  FixedLength policy(7);
  policy.Observe(Round(7, 0));
  policy.Observe(Round(7, 7));
  EXPECT_EQ(Next(policy).tokens, 7u);
  EXPECT_TRUE(policy.WantsDraft());
  EXPECT_FALSE(FixedLength(0).WantsDraft());
}

TEST(HeuristicLength, TwoUpOneDownWithinItsBounds) {
  HeuristicLength policy;
  EXPECT_EQ(Next(policy).tokens, 4u);
  policy.Observe(Round(4, 4));
  EXPECT_EQ(Next(policy).tokens, 6u);
  policy.Observe(Round(6, 5));
  EXPECT_EQ(Next(policy).tokens, 5u);
  RoundRecord plain = Round(0, 0);
  plain.cause = PlainCause::kDraftLate;
  policy.Observe(plain);
  EXPECT_EQ(Next(policy).tokens, 5u) << "a round without a block says nothing";
  for (int i = 0; i < 10; ++i) policy.Observe(Round(5, 0));
  EXPECT_EQ(Next(policy).tokens, 1u);
  for (int i = 0; i < 20; ++i) {
    const uint32_t tokens = Next(policy).tokens;
    policy.Observe(Round(tokens, tokens));
  }
  EXPECT_EQ(Next(policy).tokens, kMaxDraftTokens);
}

TEST(AcceptanceEstimate, CountsChainsByPosition) {
  AcceptanceEstimate estimate;
  EXPECT_TRUE(estimate.empty());
  EXPECT_NEAR(estimate.Expect(4).tokens[1], 1.7, 1e-9) << "the prior";
  // The first token always, the second in half of the cases, the third never.
  for (int i = 0; i < 1000; ++i) estimate.Observe(3, 3, 3, i % 2 == 0 ? 2 : 1);
  const ByShape tokens = estimate.Expect(4).tokens;
  EXPECT_DOUBLE_EQ(tokens[0], 1);
  EXPECT_NEAR(tokens[1], 2, 0.02);
  EXPECT_NEAR(tokens[2], 2.5, 0.03);
  EXPECT_NEAR(tokens[16], 2.5, 0.03) << "longer ones reject there, too";
  EXPECT_NEAR(estimate.alpha(), 1.5 / 2.5, 0.01);
  for (int i = 0; i < 8000; ++i) estimate.Observe(1, 1, 1, 0);
  EXPECT_LT(estimate.Expect(4).tokens[1], 1.1) << "what is long ago fades";
}

TEST(AcceptanceEstimate, APositionThatNobodyAskedForIsAsTheOneBefore) {
  AcceptanceEstimate estimate;
  for (int i = 0; i < 4000; ++i) estimate.Observe(1, 1, 1, i % 2);
  const ByShape tokens = estimate.Expect(4).tokens;
  EXPECT_NEAR(tokens[3], 1 + 0.5 + 0.25 + 0.125, 0.02);
}

TEST(AcceptanceEstimate, TokensThatDidNotComeCountForTheLengthAndNotForTheDraft) {
  AcceptanceEstimate estimate;
  EXPECT_DOUBLE_EQ(estimate.Expect(4).drafted[5], 5) << "before any";
  // One token comes in half of the rounds, three in the others; all are accepted.
  for (uint32_t i = 0; i < 1000; ++i) estimate.Observe(4, 4, 1 + i % 2 * 2, 1 + i % 2 * 2);
  const AcceptanceEstimate::Expected expected = estimate.Expect(4);
  EXPECT_NEAR(expected.drafted[4], 2, 0.01);
  EXPECT_NEAR(expected.drafted[2], 1.5, 0.01);
  EXPECT_NEAR(expected.tokens[4], 3, 0.02);
}

TEST(AcceptanceEstimate, TreesAndConfidentChainsAreCountedWholeAndTriedAgain) {
  AcceptanceEstimate estimate;
  const uint32_t tree = kFirstTree;
  const AcceptanceEstimate::Expected before = estimate.Expect(4);
  EXPECT_NEAR(before.tokens[tree], 1.04 * before.tokens[kMaxDraftTokens], 1e-9);
  EXPECT_GT(before.tokens[tree + 1], before.tokens[tree]);
  EXPECT_EQ(before.drafted[tree + 1], 16);
  EXPECT_EQ(before.tokens[kFirstConfident], before.tokens[4]);
  EXPECT_LT(before.drafted[kFirstConfident], before.drafted[4]) << "so it is asked for once";
  for (int i = 0; i < 500; ++i) estimate.Observe(tree, 4, 6, 1);
  const AcceptanceEstimate::Expected after = estimate.Expect(4);
  EXPECT_NEAR(after.tokens[tree], 2, 0.05);
  EXPECT_NEAR(after.drafted[tree], 6, 0.05);
  EXPECT_EQ(after.drafted[tree + 1], 16) << "another shape";
  EXPECT_EQ(after.tokens[1], before.tokens[1]) << "a tree tells nothing of chains";
  for (int i = 0; i < 10'000; ++i) estimate.Observe(1, 1, 1, 1);
  EXPECT_NEAR(estimate.Expect(4).drafted[tree], 8, 0.1) << "forgotten, so it is tried again";
}

RoundParts Alone(double draft_token, double draft_network = 0) {
  RoundParts parts{
      .decoding = {.sequences = 1}, .draft_token = draft_token, .draft_network = draft_network};
  std::iota(parts.drafted.begin(), parts.drafted.begin() + kMaxDraftTokens + 1, 0);
  return parts;
}

// Chains of a fixed length alone are offered.
ByShape TokensAt(double alpha) {
  ByShape tokens{};
  for (uint32_t k = 0; k <= kMaxDraftTokens; ++k) tokens[k] = theory::ExpectedTokens(alpha, k);
  return tokens;
}

// One sequence, one alpha: the optimum that theory/round_time.h enumerates.
TEST(RoundModel, AloneItsOptimumIsThatOfTheory) {
  const auto pass = theory::PassTime::Create({{1, 8000}, {4, 8200}, {16, 9000}, {64, 30'000}});
  ASSERT_TRUE(pass.ok());
  const auto seconds = [&](double rows) { return (*pass)(static_cast<int>(rows)) / 1e6; };
  for (double alpha : {0.0, 0.3, 0.6, 0.9, 1.0}) {
    for (double draft_us : {0.0, 100.0, 800.0, 4000.0, 9000.0}) {
      for (double round_trip_us : {0.0, 1000.0, 20'000.0}) {
        const RoundParts parts = Alone(draft_us / 1e6, round_trip_us / 1e6);
        uint32_t best = 0;
        double most = 0;
        for (uint32_t k = 0; k <= kMaxDraftTokens; ++k) {
          const double rate = theory::ExpectedTokens(alpha, k) / TimeOf(parts, seconds, k).time;
          if (rate > most) best = k;
          most = std::max(most, rate);
        }
        EXPECT_EQ(best, theory::OptimalCandidates({*pass, draft_us, round_trip_us}, alpha,
                                                  static_cast<int>(kMaxDraftTokens)))
            << alpha << " " << draft_us << " " << round_trip_us;
      }
    }
  }
}

TEST(RoundModel, SequencesShareAPassAsFarAsTheTargetWaitsAndAims) {
  const auto seconds = [](double rows) { return 8e-3 + rows * 1e-3; };
  RoundParts parts = Alone(1e-3);
  parts.decoding.sequences = 16;
  EXPECT_NEAR(TimeOf(parts, seconds, 0).time, 24e-3, 1e-9) << "all at once";
  EXPECT_NEAR(TimeOf(parts, seconds, 2).time, 2e-3 + 56e-3, 1e-9) << "waited for";
  parts.draft_network = 20e-3;
  EXPECT_FALSE(TimeOf(parts, seconds, 2).gathered);
  EXPECT_NEAR(TimeOf(parts, seconds, 2).time, 2 * 32e-3, 1e-9) << "two halves in turn";
  parts.decoding.pass_rows = 12;
  parts.decoding.pass_sequences = 2;
  EXPECT_NEAR(TimeOf(parts, seconds, 2).time, 4 * 20e-3, 1e-9) << "12 rows of 48 in a pass";
  EXPECT_NEAR(TimeOf(parts, seconds, 15).time, 8 * 40e-3, 1e-9) << "two rounds, however long";
}

TEST(RoundModel, SaysWhyThereIsNoDraft) {
  // A row costs its whole price from eight rows on.
  const auto dear = [](double rows) { return rows <= 8 ? 1e-3 : rows * 1e-3 / 8; };
  const ByShape good = TokensAt(0.7);
  RoundParts loaded = Alone(1e-5);
  loaded.decoding.sequences = 64;
  EXPECT_EQ(WhyZero(loaded, dear, good), ZeroCause::kLoad);
  EXPECT_EQ(WhyZero(Alone(5e-3), dear, good), ZeroCause::kSlowDraft);
  EXPECT_EQ(WhyZero(Alone(5e-3), dear, TokensAt(0)), ZeroCause::kAcceptance);
}

// ---- what requests share ----

RoundRecord Decided(const LengthChoice& choice, absl::Duration took, uint32_t accepted) {
  RoundRecord round = Round(choice.tokens, std::min(accepted, choice.tokens));
  round.choice = choice;
  if (choice.tokens == 0) round.cause = PlainCause::kPolicyZero;
  round.decided = round.began + took;
  round.stages.draft = choice.tokens * absl::Milliseconds(2);
  round.stages.device = absl::Milliseconds(1);
  round.pass_rows = choice.tokens + 1;
  round.pass_sequences = 1;
  return round;
}

TEST(AutoLength, ARequestBeginsWithWhatOthersHaveLearned) {
  CommonLength common;
  const auto group = common.Group("", acceptance::Rule::kGreedy);
  common.Began();
  AutoLength first(common, group);
  EXPECT_TRUE(first.WantsDraft());
  EXPECT_FALSE(Next(first).estimates.alpha.has_value());
  for (int i = 0; i < 3000; ++i) {
    const LengthChoice choice = Next(first);
    // A draft token takes twice a pass, and none is accepted.
    first.Observe(Decided(choice, absl::Milliseconds(1 + 2 * choice.tokens), 0));
  }
  AutoLength second(common, group);
  EXPECT_FALSE(second.WantsDraft());
  const LengthChoice choice = Next(second);
  EXPECT_EQ(choice.tokens, 0u);
  EXPECT_EQ(choice.zero, ZeroCause::kAcceptance);
  ASSERT_TRUE(choice.estimates.alpha.has_value());
  EXPECT_LT(*choice.estimates.alpha, 0.05);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(choice.estimates.draft_token.value()), 2, 0.2);

  AutoLength other(common, common.Group("prompt-lookup", acceptance::Rule::kGreedy));
  EXPECT_TRUE(other.WantsDraft()) << "another drafter is another matter";
  AutoLength tree(common, common.Group("", acceptance::Rule::kGreedy, 8));
  EXPECT_TRUE(tree.WantsDraft()) << "so is a tree";
}

// No round of these texts has room for the block that the policy begins with.
TEST(AutoLength, LearnsFromTextsThatAreShorterThanItsBlocks) {
  CommonLength common;
  common.Began();
  const auto group = common.Group("", acceptance::Rule::kGreedy);
  uint32_t rounds = 0;
  while (rounds < 3000) {
    AutoLength policy(common, group);
    for (uint32_t left = 4; left > 0; --left, ++rounds) {
      LengthChoice asked = Next(policy);
      const uint32_t chosen = asked.tokens;
      asked.tokens = std::min(chosen, left - 1);
      RoundRecord round = Decided(asked, absl::Milliseconds(1 + 2 * asked.tokens), 0);
      round.choice->tokens = chosen;
      round.tokens = 1;
      policy.Observe(round);
    }
  }
  EXPECT_FALSE(AutoLength(common, group).WantsDraft());
}

// Nothing was measured yet, and the target's curve tells what rows cost.
TEST(AutoLength, BeginsAsTheTargetsCurveSays) {
  const auto dear = [](uint32_t rows) { return rows * absl::Milliseconds(1); };
  const auto cheap = [](uint32_t rows) {
    return absl::Milliseconds(8) + rows * absl::Microseconds(20);
  };
  const auto first = [](const LengthInputs& inputs) {
    CommonLength common;
    AutoLength policy(common, common.Group("", acceptance::Rule::kGreedy));
    return policy.Next(inputs).tokens;
  };
  EXPECT_EQ(first({.pass_time = dear, .decoding = {.sequences = 64}}), 0u);
  EXPECT_EQ(first({.pass_time = cheap, .decoding = {.sequences = 1}}), 4u);
  EXPECT_EQ(first({.pass_time = Unknown, .decoding = {.sequences = 1}}), 4u);
  EXPECT_EQ(first({.pass_time = cheap, .max_draft_tokens = 2}), 2u);
}

// The load is the target's: rows of other orchestrators' sequences cost as much as one's own.
TEST(AutoLength, FollowsTheTargetsLoad) {
  CommonLength common;
  common.Began();
  AutoLength policy(common, common.Group("", acceptance::Rule::kGreedy));
  // Eight rows cost no more than one, and further ones their whole price.
  const auto pass_time = [](uint32_t rows) { return std::max(rows, 8u) * absl::Milliseconds(1); };
  const auto run = [&](uint32_t sequences, int rounds) {
    uint32_t last = 0;
    for (int i = 0; i < rounds; ++i) {
      const LengthChoice choice =
          policy.Next({.pass_time = pass_time, .decoding = {.sequences = sequences}});
      if (!choice.trial) last = choice.tokens;
      RoundRecord round = Decided(choice, pass_time(sequences * (choice.tokens + 1)), 3);
      round.stages.draft = choice.tokens * absl::Microseconds(100);
      policy.Observe(round);
    }
    return last;
  };
  EXPECT_GE(run(1, 100), 3u);
  EXPECT_EQ(run(64, 100), 0u);
  EXPECT_GE(run(1, 100), 3u);
}

// Two lengths are as good. Each orchestrator takes the one that the target decodes already.
TEST(AutoLength, WhereTwoAreNearlyAsGoodAllTakeTheSame) {
  const auto pass_time = [](uint32_t) { return absl::Milliseconds(10); };
  const auto settled = [&](double others) {
    CommonLength common;
    AutoLength policy(common, common.Group("", acceptance::Rule::kGreedy));
    LengthChoice choice;
    for (int i = 0; i < 2000; ++i) {
      choice = policy.Next(
          {.pass_time = pass_time, .decoding = {.sequences = 1, .draft_tokens = others}});
      // The first token is accepted in four of five rounds, the second in one of two.
      const uint32_t accepted = i % 5 == 0 ? 0 : 1 + i % 2;
      RoundRecord round =
          Decided(choice, absl::Milliseconds(10) + choice.tokens * absl::Microseconds(2300),
                  std::min(accepted, 2u));
      round.stages.draft = choice.tokens * absl::Microseconds(2300);
      policy.Observe(round);
    }
    return choice.tokens;
  };
  EXPECT_EQ(settled(1), 1u);
  EXPECT_EQ(settled(2), 2u);
}

// A probe is bounded as a share of the time, and a draft that becomes better is found by it.
TEST(AutoLength, ProbesWhileItDoesNotDraft) {
  CommonLength common;
  common.Began();
  AutoLength policy(common, common.Group("", acceptance::Rule::kGreedy));
  const auto run = [&](int rounds, uint32_t accepted) {
    double lost = 0;
    for (int i = 0; i < rounds; ++i) {
      const LengthChoice choice = Next(policy);
      lost += choice.tokens;  // each takes as long as a round
      RoundRecord round = Decided(choice, absl::Milliseconds(1 + choice.tokens), accepted);
      round.stages.draft = choice.tokens * absl::Milliseconds(1);
      policy.Observe(round);
    }
    return lost / rounds;
  };
  run(2000, 0);
  ASSERT_EQ(Next(policy).tokens, 0u);
  EXPECT_LT(run(20'000, 0), 0.02);
  const auto fast = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      const LengthChoice choice = Next(policy);
      RoundRecord round = Decided(choice, absl::Milliseconds(1), kMaxDraftTokens);
      round.stages.draft = absl::ZeroDuration();
      policy.Observe(round);
    }
  };
  fast(200'000);
  EXPECT_GT(Next(policy).tokens, 4u);
}

// ---- trees ----

// A round of a system in which `pass_rows` says what rows cost, and a tree of n nodes has log2(n)
// tokens.
RoundRecord DecidedTree(const LengthChoice& choice, absl::Duration row) {
  const uint32_t rows = (choice.nodes > 0 ? choice.nodes : choice.tokens) + 1;
  uint32_t accepted = std::min(choice.tokens, 2u);
  if (choice.nodes > 0) accepted = static_cast<uint32_t>(std::log2(choice.nodes));
  RoundRecord round =
      Decided(choice, absl::Milliseconds(10) + choice.tokens * absl::Microseconds(200) + rows * row,
              accepted);
  round.accepted_tokens = accepted;
  round.tokens = accepted + 1;
  round.draft_tokens = rows - 1;
  round.draft_depth = choice.tokens;
  round.tree = choice.nodes > 0;
  round.stages.draft = choice.tokens * absl::Microseconds(200);
  return round;
}

struct TreesChosen {
  uint32_t rounds = 0;      // of the last third, with a tree
  uint32_t max_nodes = 0;   // that was asked for
  uint32_t last_nodes = 0;  // of the last round that was no trial
};

TreesChosen ChosenTrees(LengthPolicy& policy, uint32_t max_nodes, absl::Duration row,
                        int rounds = 6000) {
  const auto pass_time = [row](uint32_t rows) { return absl::Milliseconds(10) + rows * row; };
  TreesChosen chosen;
  for (int i = 0; i < rounds; ++i) {
    const LengthChoice choice = policy.Next({.pass_time = pass_time, .max_nodes = max_nodes});
    if (3 * i >= 2 * rounds && choice.nodes > 0) ++chosen.rounds;
    chosen.max_nodes = std::max(chosen.max_nodes, choice.nodes);
    if (!choice.trial) chosen.last_nodes = choice.nodes;
    EXPECT_TRUE(choice.nodes == 0 || choice.min_confidence == 0) << "a confidence ends chains";
    policy.Observe(DecidedTree(choice, row));
  }
  return chosen;
}

TEST(AutoTrees, AreChosenWhereRowsCostLittle) {
  CommonLength common;
  common.Began();
  AutoLength policy(common, common.Group("", acceptance::Rule::kCoupled, std::nullopt));
  const TreesChosen chosen = ChosenTrees(policy, 64, absl::Microseconds(2));
  EXPECT_GT(chosen.rounds, 1700u);
  EXPECT_GE(chosen.last_nodes, 32u);
}

TEST(AutoTrees, AreLeftAloneWhereRowsCostMuch) {
  CommonLength common;
  common.Began();
  AutoLength policy(common, common.Group("", acceptance::Rule::kCoupled, std::nullopt));
  EXPECT_EQ(ChosenTrees(policy, 64, absl::Milliseconds(5)).max_nodes, 0u) << "not even tried";
}

// Trees that the target tells as cheap, and that are not: trials find it, and cost little.
TEST(AutoTrees, AreGivenUpWhereTheCurveWasWrong) {
  CommonLength common;
  common.Began();
  AutoLength policy(common, common.Group("", acceptance::Rule::kCoupled, std::nullopt));
  uint32_t trees = 0;
  for (int i = 0; i < 6000; ++i) {
    const LengthChoice choice = policy.Next(
        {.pass_time = [](uint32_t) { return absl::Milliseconds(10); }, .max_nodes = 64});
    if (choice.nodes > 0) ++trees;
    policy.Observe(DecidedTree(choice, absl::Milliseconds(5)));
  }
  EXPECT_GT(trees, 0u) << "the curve deserves a trial";
  EXPECT_LT(trees, 300u);
}

TEST(AutoTrees, KeepToWhatThePeersTake) {
  CommonLength common;
  common.Began();
  AutoLength policy(common, common.Group("", acceptance::Rule::kCoupled, std::nullopt));
  EXPECT_EQ(ChosenTrees(policy, 7, absl::Microseconds(2)).max_nodes, 0u);
  EXPECT_LE(ChosenTrees(policy, 20, absl::Microseconds(2)).max_nodes, 16u);
  EXPECT_GE(ChosenTrees(policy, 64, absl::Microseconds(2), 20'000).last_nodes, 32u);
  // Another target takes less, and then chains alone.
  EXPECT_EQ(ChosenTrees(policy, 16, absl::Microseconds(2)).last_nodes, 16u);
  const TreesChosen none = ChosenTrees(policy, 0, absl::Microseconds(2));
  EXPECT_EQ(none.max_nodes, 0u);
}

// While the draft is away no block comes. That says nothing of blocks.
TEST(AutoLength, RoundsWithoutADraftThatIsThereTeachNothing) {
  CommonLength common;
  common.Began();
  AutoLength policy(common, common.Group("", acceptance::Rule::kGreedy));
  const LengthChoice before = Next(policy);
  for (int i = 0; i < 5000; ++i) {
    RoundRecord round = Decided(Next(policy), absl::Milliseconds(1), 0);
    round.draft_tokens = 0;
    round.cause = PlainCause::kDraftLost;
    policy.Observe(round);
  }
  EXPECT_EQ(Next(policy).tokens, before.tokens);
  EXPECT_FALSE(Next(policy).estimates.alpha.has_value());
}

// A draft that has nothing for the text, or is always late, is not asked for ever.
TEST(AutoLength, ADraftWithoutBlocksIsGivenUp) {
  for (const PlainCause cause : {PlainCause::kDraftEmpty, PlainCause::kDraftLate}) {
    CommonLength common;
    common.Began();
    const auto group = common.Group("", acceptance::Rule::kGreedy);
    for (int text = 0; text < 20; ++text) {
      AutoLength policy(common, group);
      for (int i = 0; i < 20; ++i) {
        RoundRecord round = Decided(Next(policy), absl::Milliseconds(5), 0);
        if (round.asked_tokens > 0) round.cause = cause;
        round.draft_tokens = 0;
        policy.Observe(round);
      }
    }
    EXPECT_FALSE(AutoLength(common, group).WantsDraft()) << static_cast<int>(cause);
  }
}

TEST(CommonLength, GroupsAreBounded) {
  CommonLength common;
  std::vector<std::shared_ptr<LengthGroup>> groups;
  for (size_t i = 0; i < 2 * CommonLength::kMaxGroups; ++i) {
    groups.push_back(common.Group(std::to_string(i), acceptance::Rule::kBlock));
  }
  EXPECT_EQ(common.Group("0", acceptance::Rule::kBlock), groups[0]);
  EXPECT_EQ(groups[CommonLength::kMaxGroups], groups.back()) << "those beyond share one";
  EXPECT_NE(groups[0], groups.back());
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  EXPECT_EQ(groups.size(), CommonLength::kMaxGroups + 1);
}

}  // namespace
}  // namespace tandem::orchestrator::length_test
