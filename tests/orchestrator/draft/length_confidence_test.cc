#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>

#include "orchestrator/draft/choice/draft_plan.h"
#include "orchestrator/draft/length/auto.h"

namespace tandem::orchestrator::length_confidence_test {
namespace {

absl::Duration PassTime(uint32_t /*rows*/) { return absl::Milliseconds(4); }

// A draft whose draft tokens are likely or doubtful by chance. It says of each with which
// chance it stands, raised to a power: with more than 1 it doubts too much. A round takes 4 ms, and
// 0.6 ms more for each draft token.
class DoubtfulDraft {
 public:
  // `knows`: else what it says has nothing to do with what is accepted.
  DoubtfulDraft(double power, bool knows) : power_(power), knows_(knows) {}

  RoundRecord Decide(const LengthChoice& choice) {
    uint32_t drafted = 0;
    uint32_t accepted = 0;
    double said = 1;
    bool stands = true;
    while (drafted < choice.tokens && (drafted == 0 || said >= choice.min_confidence)) {
      const double chance = Chance();
      ++drafted;
      said *= std::pow(knows_ ? chance : Chance(), power_);
      stands = stands && Uniform() < chance;
      if (stands) ++accepted;
    }
    RoundRecord round;
    round.choice = choice;
    round.asked_tokens = choice.tokens;
    round.draft_tokens = drafted;
    round.accepted_tokens = accepted;
    round.tokens = accepted + 1;
    if (choice.tokens == 0) round.cause = PlainCause::kPolicyZero;
    round.decided = round.began + absl::Milliseconds(4) + drafted * absl::Microseconds(600);
    round.stages.draft = drafted * absl::Microseconds(600);
    round.stages.device = absl::Milliseconds(4);
    round.pass_rows = drafted + 1;
    round.pass_sequences = 1;
    return round;
  }

 private:
  double Uniform() { return std::uniform_real_distribution<double>()(random_); }
  double Chance() { return Uniform() < 0.7 ? 0.98 : 0.3; }

  const double power_;
  const bool knows_;
  std::mt19937_64 random_{1};
};

struct Outcome {
  double speed = 0;       // tokens a millisecond
  double confident = 0;   // share of rounds whose chain may end by confidence
  double confidence = 0;  // the last that was asked for
};

Outcome Play(DoubtfulDraft draft, const std::function<LengthChoice()>& next,
             const std::function<void(const RoundRecord&)>& observe, int warm_up) {
  constexpr int kRounds = 20'000;
  Outcome outcome;
  double tokens = 0, time = 0;
  for (int i = 0; i < warm_up + kRounds; ++i) {
    const LengthChoice choice = next();
    const RoundRecord round = draft.Decide(choice);
    observe(round);
    if (choice.min_confidence > 0) outcome.confidence = choice.min_confidence;
    if (i < warm_up) continue;
    if (choice.min_confidence > 0) outcome.confident += 1.0 / kRounds;
    tokens += round.tokens;
    time += absl::ToDoubleMilliseconds(round.decided - round.began);
  }
  outcome.speed = tokens / time;
  return outcome;
}

Outcome PlayAuto(DoubtfulDraft draft, acceptance::Rule rule = acceptance::Rule::kGreedy,
                 uint32_t nodes = 0, bool ends_by_confidence = true,
                 std::optional<double> draft_temperature = {}) {
  CommonLength common;
  common.Began();
  CommonDrafters drafters;
  GenerationRequest request;
  request.rule = rule;
  request.length_mode = LengthMode::kAuto;
  request.draft_nodes = nodes;
  request.draft_temperature = draft_temperature;
  DraftPlan plan(request, common, drafters);
  return Play(
      draft,
      [&] {
        return plan.Next({.pass_time = PassTime, .ends_by_confidence = ends_by_confidence}, 100)
            .length;
      },
      [&](const RoundRecord& round) { plan.Observe(round); }, 10'000);
}

double Speed(DoubtfulDraft draft, const LengthChoice& choice) {
  return Play(
             draft, [&] { return choice; }, [](const RoundRecord& /*round*/) {}, 0)
      .speed;
}

double BestFixedSpeed(DoubtfulDraft draft) {
  double best = 0;
  for (uint32_t k = 0; k <= kMaxDraftTokens; ++k)
    best = std::max(best, Speed(draft, {.tokens = k}));
  return best;
}

double BestConfidentSpeed(DoubtfulDraft draft) {
  double best = 0;
  for (double confidence : kConfidences) {
    best = std::max(best, Speed(draft, {.tokens = kConfidentTokens, .min_confidence = confidence}));
  }
  return best;
}

TEST(AutoConfidence, IsAskedForWhereItPays) {
  // The one that doubts too much is asked for less.
  for (double power : {1.0, 40.0}) {
    const DoubtfulDraft draft(power, true);
    const double confident = BestConfidentSpeed(draft);
    ASSERT_GT(confident, 1.05 * BestFixedSpeed(draft));
    const Outcome outcome = PlayAuto(draft);
    EXPECT_GT(outcome.speed, 0.97 * confident);
    EXPECT_GT(outcome.confident, 0.9);
  }
}

// Chains that end early end at the wrong place, whatever the confidence. Rounds show it.
TEST(AutoConfidence, IsNotAskedForWhereItSaysNothing) {
  const DoubtfulDraft draft(1, false);
  const Outcome outcome = PlayAuto(draft);
  ASSERT_LT(BestConfidentSpeed(draft), 0.97 * BestFixedSpeed(draft));
  EXPECT_GT(outcome.speed, 0.97 * BestFixedSpeed(draft));
  EXPECT_LT(outcome.confident, 0.1);
}

// A text that has not opened its draft yet says nothing of what drafts can.
TEST(AutoConfidence, IsKeptWhereATextDoesNotKnowItsDraftYet) {
  CommonLength common;
  common.Began();
  DoubtfulDraft draft(1, true);
  AutoLength policy(common, common.Group("", acceptance::Rule::kGreedy));
  LengthInputs known{.pass_time = PassTime, .ends_by_confidence = true};
  for (int i = 0; i < 10'000; ++i) policy.Observe(draft.Decide(policy.Next(known)));
  ASSERT_GT(policy.Next(known).min_confidence, 0);
  int confident = 0;
  for (int i = 0; i < 1000; ++i) {
    const LengthChoice choice = policy.Next({.pass_time = PassTime, .draft_is_known = false});
    if (choice.min_confidence > 0) ++confident;
    policy.Observe(draft.Decide(choice));
  }
  EXPECT_GT(confident, 800);
}

// Elsewhere the length would depend on a drawn token's value, or the draft does not know the
// option.
TEST(AutoConfidence, IsNeverAskedForWhereItIsNotExactOrNotToBeHad) {
  const DoubtfulDraft draft(1, true);
  EXPECT_GT(PlayAuto(draft, acceptance::Rule::kCoupled).confidence, 0);
  for (const auto rule :
       {acceptance::Rule::kSpeculative, acceptance::Rule::kBlock, acceptance::Rule::kLenient}) {
    EXPECT_EQ(PlayAuto(draft, rule).confidence, 0) << acceptance::Name(rule);
  }
  EXPECT_EQ(PlayAuto(draft, acceptance::Rule::kGreedy, 8).confidence, 0) << "a tree";
  EXPECT_EQ(PlayAuto(draft, acceptance::Rule::kGreedy, 0, false).confidence, 0);
  EXPECT_GT(PlayAuto(draft, acceptance::Rule::kGreedy, 0, true, 0.0).confidence, 0);
  EXPECT_EQ(PlayAuto(draft, acceptance::Rule::kGreedy, 0, true, 0.7).confidence, 0) << "it has a q";
}

}  // namespace
}  // namespace tandem::orchestrator::length_confidence_test
