#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/concurrency/instant.h"
#include "common/theory/round_time.h"
#include "common/theory/speedup.h"
#include "orchestrator/draft/length/acceptance_estimate.h"
#include "orchestrator/draft/length/auto.h"
#include "orchestrator/draft/length/fixed.h"
#include "orchestrator/draft/length/heuristic.h"
#include "orchestrator/draft/length/length_search.h"
#include "orchestrator/draft/length/paired_rounds.h"
#include "orchestrator/draft/length/round_model.h"
#include "orchestrator/draft/length/tree_estimate.h"

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

// Chains of a fixed length alone are offered.
ByShape TokensAt(double alpha) {
  ByShape tokens;
  tokens.fill(LengthSearch::kNotOffered);
  for (uint32_t k = 0; k <= kMaxDraftTokens; ++k) tokens[k] = theory::ExpectedTokens(alpha, k);
  return tokens;
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

TEST(AcceptanceEstimate, CountsByPosition) {
  AcceptanceEstimate estimate;
  BlockReplay::Text text;
  EXPECT_TRUE(estimate.empty());
  EXPECT_DOUBLE_EQ(estimate.At(1), 0.7) << "the prior";
  EXPECT_DOUBLE_EQ(estimate.Tokens(0), 1);
  // The first token always, the second in half of the cases, the third never.
  for (int i = 0; i < 1000; ++i) estimate.Observe(3, 3, i % 2 == 0 ? 2 : 1, text);
  EXPECT_NEAR(estimate.At(1), 1, 0.01);
  EXPECT_NEAR(estimate.At(2), 0.5, 0.01);
  EXPECT_NEAR(estimate.At(3), 0, 0.01);
  EXPECT_NEAR(estimate.Tokens(3), 2.5, 0.02);
  EXPECT_NEAR(estimate.alpha(), 1.5 / 2.5, 0.01);
  EXPECT_NEAR(estimate.At(4), estimate.At(3), 1e-12) << "nobody asked: as the one before";
}

TEST(AcceptanceEstimate, TokensThatDidNotComeCountForTheLengthAndNotForTheDraft) {
  AcceptanceEstimate estimate;
  BlockReplay::Text text;
  EXPECT_DOUBLE_EQ(estimate.Drafted(5), 5) << "before any";
  // One token comes in half of the rounds, three in the others; all are accepted.
  for (uint32_t i = 0; i < 1000; ++i) estimate.Observe(4, 1 + i % 2 * 2, 1 + i % 2 * 2, text);
  EXPECT_NEAR(estimate.Drafted(4), 2, 1e-9);
  EXPECT_NEAR(estimate.Drafted(2), 1.5, 1e-9);
  EXPECT_NEAR(estimate.Tokens(4), 3, 0.02);
  EXPECT_NEAR(estimate.At(2), 0.5, 0.01);
}

// The last round of a text has room for fewer tokens, and the longer its block is the more that matters.
TEST(AcceptanceEstimate, TokensOfARoundInTextsThatEnd) {
  constexpr double kAlpha = 0.75;
  constexpr uint32_t kText = 24;
  std::mt19937_64 random(1);
  std::bernoulli_distribution accepts(kAlpha);
  for (uint32_t asked : {0, 1, 3, 8}) {
    AcceptanceEstimate estimate;
    BlockReplay::Text text;
    int rounds = 0;
    constexpr int kTexts = 3000;
    for (int i = 0; i < kTexts; ++i) {
      for (uint32_t left = kText; left > 0; ++rounds) {
        const uint32_t room = std::min(asked, left - 1);
        uint32_t accepted = 0;
        while (accepted < room && accepts(random)) ++accepted;
        if (room > 0) estimate.Observe(room, room, accepted, text);
        left -= accepted + 1;
      }
    }
    const double tokens = 1.0 * kText * kTexts / rounds;
    EXPECT_NEAR(estimate.TokensInTexts(asked, kText) / tokens, 1, 0.01) << asked;
    if (asked == 8) {
      EXPECT_GT(estimate.Tokens(asked) / tokens, 1.08) << "of texts without an end";
    }
  }
}

TEST(AcceptanceEstimate, ForgetsWhatIsLongAgo) {
  AcceptanceEstimate estimate;
  BlockReplay::Text text;
  for (int i = 0; i < 100'000; ++i) estimate.Observe(1, 1, 1, text);
  for (int i = 0; i < 8'000; ++i) estimate.Observe(1, 1, 0, text);
  EXPECT_LT(estimate.At(1), 0.1);
}

TEST(AcceptanceEstimate, FadesToWhatOthersAreWorth) {
  AcceptanceEstimate estimate;
  BlockReplay::Text text;
  for (int i = 0; i < 1000; ++i) estimate.Observe(2, 2, 2, text);
  estimate.Fade(10);
  EXPECT_GT(estimate.At(1), 0.9) << "the same ratios";
  EXPECT_NEAR(estimate.Drafted(2), 2, 1e-9);
  for (int i = 0; i < 40; ++i) estimate.Observe(2, 1, 0, text);
  EXPECT_LT(estimate.At(1), 0.3) << "of little weight";
  EXPECT_LT(estimate.Drafted(2), 1.3);
}

// One sequence, one alpha: the optimum that theory/round_time.h enumerates.
TEST(RoundModel, AloneItsOptimumIsThatOfTheory) {
  const auto pass = theory::PassTime::Create({{1, 8000}, {4, 8200}, {16, 9000}, {64, 30'000}});
  ASSERT_TRUE(pass.ok());
  const auto seconds = [&](double rows) { return (*pass)(static_cast<int>(rows)) / 1e6; };
  for (double alpha : {0.0, 0.3, 0.6, 0.9, 1.0}) {
    for (double draft_us : {0.0, 100.0, 800.0, 4000.0, 9000.0}) {
      for (double round_trip_us : {0.0, 1000.0, 20'000.0}) {
        const ByShape tokens = TokensAt(alpha);
        const RoundParts parts{.draft_token = draft_us / 1e6, .draft_network = round_trip_us / 1e6};
        EXPECT_EQ(BestShape(tokens, RoundTimes(parts, seconds)),
                  theory::OptimalCandidates({*pass, draft_us, round_trip_us}, alpha,
                                            static_cast<int>(kMaxDraftTokens)))
            << alpha << " " << draft_us << " " << round_trip_us;
      }
    }
  }
}

TEST(RoundModel, SaysWhyThereIsNoDraft) {
  // A row costs its whole price from two rows on.
  const auto dear = [](double rows) { return rows <= 8 ? 1e-3 : rows * 1e-3 / 8; };
  const ByShape good = TokensAt(0.7);
  const ByShape bad = TokensAt(0.0);
  const RoundParts loaded{.sequences = 64, .draft_token = 1e-5};
  EXPECT_EQ(BestShape(good, RoundTimes(loaded, dear)), 0u);
  EXPECT_EQ(WhyZero(loaded, dear, good), ZeroCause::kLoad);
  const RoundParts slow{.sequences = 1, .draft_token = 5e-3};
  EXPECT_EQ(BestShape(good, RoundTimes(slow, dear)), 0u);
  EXPECT_EQ(WhyZero(slow, dear, good), ZeroCause::kSlowDraft);
  EXPECT_EQ(WhyZero(slow, dear, bad), ZeroCause::kAcceptance);
}

// A system whose rounds take what `time` says, exactly. Runs `rounds`, and returns the share of the
// time by which it was slower than the best length.
class Played {
 public:
  Played(LengthSearch& search, ByShape tokens, ByShape model)
      : search_(search), tokens_(tokens), model_(model) {}

  double Run(int rounds, const ByShape& time) {
    double took = 0;
    double made = 0;
    double best = 0;
    for (uint32_t k = 0; k < kShapes; ++k) best = std::max(best, tokens_[k] / time[k]);
    for (int i = 0; i < rounds; ++i) {
      const uint32_t length = search_.length();
      took += time[length];
      made += tokens_[length];
      if (search_.best() != last_) ++changes;
      last_ = search_.best();
      if (search_.Observe({time[length], tokens_[length]}, true, 1))
        search_.Advance(tokens_, model_, 1);
    }
    return 1 - made / took / best;
  }

  int changes = 0;

 private:
  LengthSearch& search_;
  const ByShape tokens_, model_;
  uint32_t last_ = 0;
};

ByShape Straight(double fixed, double each) {
  ByShape time;
  for (uint32_t k = 0; k < kShapes; ++k) time[k] = fixed + k * each;
  return time;
}

// The model is wrong by any factor: rounds decide.
TEST(LengthSearch, FindsTheBestLengthWhateverTheModelSays) {
  for (double alpha : {0.2, 0.5, 0.8, 0.95}) {
    for (double each : {0.02, 0.1, 0.5, 2.0}) {
      for (double believed : {0.02, 0.5, 3.0}) {
        LengthSearch search(4);
        Played played(search, TokensAt(alpha), Straight(1, believed));
        played.Run(20'000, Straight(1, each));
        EXPECT_LT(played.Run(20'000, Straight(1, each)), 0.02)
            << alpha << " " << each << " " << believed << ": " << search.best();
      }
    }
  }
}

TEST(LengthSearch, TrialsOfWhatDoesNotPayCostLittle) {
  LengthSearch search(4);
  Played played(search, TokensAt(0.3), Straight(1, 1));
  played.Run(3'000, Straight(1, 3));
  EXPECT_EQ(search.best(), 0u);
  EXPECT_LT(played.Run(50'000, Straight(1, 3)), 0.01);
}

TEST(LengthSearch, FollowsAChangeOfTheTimes) {
  LengthSearch search(4);
  Played played(search, TokensAt(0.8), Straight(1, 0.1));
  played.Run(5'000, Straight(1, 0.05));
  EXPECT_GE(search.best(), 4u);
  played.Run(20'000, Straight(1, 5));
  EXPECT_EQ(search.best(), 0u);
  played.Run(30'000, Straight(1, 0.05));
  EXPECT_GE(search.best(), 4u);
}

// Lengths that are equal but for a few thousandths are not worth a change.
TEST(LengthSearch, StaysWhereNothingIsWon) {
  const ByShape tokens = TokensAt(0.5);
  ByShape time;
  for (uint32_t k = 0; k < kShapes; ++k) time[k] = tokens[k] * (1 + 0.001 * (k % 3));
  LengthSearch search(4);
  Played played(search, tokens, time);
  played.Run(1'000, time);
  played.changes = 0;
  played.Run(50'000, time);
  EXPECT_LE(played.changes, 1);
}

// Sequences whose rounds take, each in its turn, what `time` says by the length, by how many rounds all of them have had
// since the last change of it, and by the length before. Each has one more round of that one when a phase ends.
class Crowd {
 public:
  using Time = std::function<double(uint32_t length, int rounds, uint32_t before)>;

  Crowd(LengthSearch& search, ByShape tokens, Time time)
      : search_(search), tokens_(tokens), time_(std::move(time)) {}

  // Runs so many rounds of each, and returns the time of all rounds for a token.
  double Run(int rounds) {
    double took = 0;
    double made = 0;
    for (int i = 0; i < rounds * kSequences; ++i) {
      const uint32_t length = search_.length();
      if (length != last_) {
        for (int late = 0; late < kSequences; ++late) {
          const double seconds = time_(last_, since_ / kSequences, before_);
          took += seconds;
          made += tokens_[last_];
          search_.CountCost({seconds, tokens_[last_]}, last_);
        }
        before_ = last_;
        last_ = length;
        since_ = 0;
      }
      const int round = since_++ / kSequences;
      const double seconds = time_(length, round, before_);
      took += seconds;
      made += tokens_[length];
      if (search_.Observe({seconds, tokens_[length]}, round > 1, kSequences)) {
        search_.Advance(tokens_, Straight(1, 0.1), kSequences);
      }
    }
    return took / made;
  }

  static constexpr int kSequences = 16;

 private:
  LengthSearch& search_;
  const ByShape tokens_;
  const Time time_;
  uint32_t last_ = search_.length();
  uint32_t before_ = last_;
  int since_ = 0;
};

// Sequences that took long blocks before come into step with each other after some rounds. Until then their rounds
// are nearly as long as they were, and uneven.
TEST(LengthSearch, ALengthThatComesIntoStepSlowlyIsFound) {
  LengthSearch search(4);
  int turn = 0;
  Crowd crowd(search, TokensAt(0.7), [&](uint32_t length, int rounds, uint32_t before) {
    if (length == 2 || length == 3) return 3.0;
    if (length != 1) return 0.9 + 0.3 * length;
    return rounds > 3 || before < 4 ? 1.0 : ++turn % 2 == 0 ? 2.4 : 1.6;
  });
  crowd.Run(2'000);
  EXPECT_EQ(search.best(), 1u);
}

// Sequences that leave plain decoding are slower for four rounds, and then 4 % faster than without drafts. So a trial has
// to be measured anew, to go on until its error is small, and to be confirmed by later rounds than the first ones.
TEST(LengthSearch, SmallGainsOverPlainDecodingAreFound) {
  const ByShape tokens = TokensAt(0.7);
  for (double uneven : {0.05, 0.1}) {
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      LengthSearch search(0);
      std::mt19937_64 random(seed);
      std::normal_distribution<double> noise;
      Crowd crowd(search, tokens, [&](uint32_t length, int rounds, uint32_t before) {
        if (length == 0) return 1.0;
        const double slower = length != 3 ? 1.1 : before == 0 && rounds < 4 ? 1.15 : 0.96;
        return slower * tokens[length] * (1 + uneven * noise(random));
      });
      crowd.Run(2'000);
      EXPECT_EQ(search.best(), 3u) << uneven << " " << seed;
    }
  }
}

// One candidate brings what it costs, on a machine whose speed moves by more. Few trials of it are clearly worse, and
// each has all sequences change their length twice. 20 searches, of 500 phases each.
TEST(LengthSearch, ATieIsTriedEverMoreRarely) {
  const ByShape tokens = TokensAt(0.6);
  ByShape time = Straight(1, 3);
  time[1] = 0.99 * tokens[1];
  uint32_t trials = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    LengthSearch search(0);
    std::mt19937_64 random(seed);
    std::normal_distribution<double> speed(0, 0.1);
    double slowness = 1;
    bool before = false;
    for (int i = 0; i < 12'000; ++i) {
      if (i % 12 == 0) slowness = std::exp(speed(random));
      const double seconds = slowness * time[search.length()];
      if (search.Observe({seconds, tokens[search.length()]}, true, 1))
        search.Advance(tokens, time, 1);
      if (search.is_trial() && !before) ++trials;
      before = search.is_trial();
    }
  }
  EXPECT_GT(trials, 20u);
  EXPECT_LT(trials, 180u);
}

// How slow a machine is, the logarithm, that is fast or slow by `noise` for some `lasts` rounds at a time.
class Unevenness {
 public:
  Unevenness(double noise, double lasts, uint64_t seed)
      : lasts_(lasts), step_(noise * std::sqrt(2 / lasts)), random_(seed) {}

  double Next() { return slowness_ += -slowness_ / lasts_ + step_ * normal_(random_); }

 private:
  const double lasts_, step_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double slowness_ = 0;
};

// Drafts that nobody had asked for come late to the first rounds of a trial. The estimate of tokens does not know that,
// and what the trials cost does. The speed wanders, so trials of what is 2 % slower than none seldom decide.
TEST(LengthSearch, TrialsThatBringLessThanEstimatedCostNoMore) {
  constexpr uint32_t kSequences = 16;
  constexpr int kSettle = 2 * kSequences;
  constexpr double kBrings = 0.6, kNoise = 0.1, kLasts = 50;
  const ByShape tokens = TokensAt(0.5);
  ByShape time = tokens;
  for (uint32_t k = 1; k < kShapes; ++k) time[k] *= 1.02;
  double took = 0, lost = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    LengthSearch search(0);
    Unevenness machine(kNoise, kLasts, seed);
    uint64_t phase = 0;
    int rounds = 0;
    for (int i = 0; i < 500'000; ++i) {
      const double slowness = machine.Next();
      if (std::exchange(phase, search.phase()) != search.phase()) rounds = 0;
      const uint32_t length = search.length();
      const double brought = (search.is_trial() ? kBrings : 1) * tokens[length];
      if (search.best() == 0) {
        took += time[length];
        lost += time[length] - brought;
      }
      const bool counts = ++rounds > kSettle;
      if (search.Observe({std::exp(slowness) * time[length], brought}, counts, kSequences)) {
        search.Advance(tokens, time, kSequences);
      }
    }
  }
  EXPECT_LT(lost, 0.007 * took) << lost / took;
}

// A machine is slow and fast in turn for a while, and then even. What was found meanwhile may be wrong, and must not
// stay. 40 searches, of 100 uneven phases and 500 even ones each.
TEST(LengthSearch, WhatAnUnevenTimeHasShownIsTriedAgain) {
  const ByShape tokens = TokensAt(0.7);
  const ByShape time = Straight(1, 0.15);
  const auto speed = [&](uint32_t length) { return tokens[length] / time[length]; };
  double best = 0;
  for (uint32_t k = 0; k < kShapes; ++k) best = std::max(best, speed(k));
  constexpr int kPhase = 24, kUneven = 100 * kPhase, kAll = 600 * kPhase;
  int lost = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    LengthSearch search(4);
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise;
    double slowness = 1;
    for (int i = 0; i < kAll; ++i) {
      if (i % 20 == 0) slowness = std::exp((i < kUneven ? 0.5 : 0.05) * noise(random));
      if (i >= kUneven && speed(search.best()) < 0.9 * best) ++lost;
      const double seconds = slowness * time[search.length()];
      if (search.Observe({seconds, tokens[search.length()]}, true, 1))
        search.Advance(tokens, time, 1);
    }
  }
  EXPECT_LT(lost, 0.04 * 40 * (kAll - kUneven));
}

// Services that have just started are slow. That is not put down to the length that they start with. 40 searches.
TEST(LengthSearch, SlowFirstRoundsAreNoMeasureOfTrials) {
  const ByShape tokens = TokensAt(0.7);
  const auto time = [&](uint32_t length) { return tokens[length] * (length == 4 ? 1 : 1.08); };
  constexpr int kRounds = 20'000;
  int lost = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    LengthSearch search(4);
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise;
    for (int i = 0; i < kRounds; ++i) {
      const double slowness = i < 40 ? 1.7 + 0.3 * noise(random) : 1 + 0.05 * noise(random);
      if (i >= kRounds / 4 && search.best() != 4) ++lost;
      const double seconds = std::max(0.5, slowness) * time(search.length());
      if (search.Observe({seconds, tokens[search.length()]}, true, 1))
        search.Advance(tokens, Straight(1, 0.3), 1);
    }
  }
  EXPECT_LT(lost, 0.2 * 40 * kRounds * 3 / 4);
}

// Of sequences that begin together few share a pass at first, so their rounds are fast. That is not put down to the length
// that they begin with, either.
TEST(LengthSearch, FastFirstRoundsOfSeveralSequencesAreNoMeasureOfTrials) {
  LengthSearch search(1);
  const ByShape tokens = TokensAt(0.5);
  int rounds = 0;
  Crowd crowd(search, tokens, [&](uint32_t length, int, uint32_t) {
    const double seconds = length == 0 ? 1 : 1.08 * tokens[length];
    return ++rounds <= 5 * Crowd::kSequences ? 0.7 * seconds : seconds;
  });
  crowd.Run(40);
  EXPECT_EQ(search.best(), 0u);
}

// Now and then a draft stands still for a tenth of a second or two, and rounds with its blocks take four times as long
// meanwhile. Plain rounds do not, so they win each comparison of that moment. 40 searches of 16 sequences; each has a
// stall every 250 phases, of one to eight of them.
TEST(LengthSearch, AStallOfTheDraftIsNoMeasureOfItsLengths) {
  ByShape tokens = TokensAt(0.75);
  ByShape time = Straight(1, 0.12);
  // Five other shapes are a seventh slower than chains, and the model takes them for better ones.
  ByShape model = Straight(1, 0.2);
  for (uint32_t k = kFirstConfident; k < kFirstConfident + 5; ++k) {
    const uint32_t chain = 1 + k - kFirstConfident;
    tokens[k] = 0.95 * tokens[chain];
    time[k] = 1.1 * time[chain];
    model[k] = 0.9 * model[chain];
  }
  const auto speed = [&](uint32_t length) { return tokens[length] / time[length]; };
  double best = 0;
  for (uint32_t k = 0; k < kShapes; ++k) best = std::max(best, speed(k));
  constexpr uint32_t kSequences = 16;
  constexpr int kPhase = 48, kStalls = 12, kBetween = 250 * kPhase;
  int lost = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    LengthSearch search(4);
    std::mt19937_64 random(seed);
    std::normal_distribution<double> noise;
    for (int i = 0; i < kStalls * kBetween; ++i) {
      const bool stalls = i % kBetween < static_cast<int>(1 + seed % 8) * kPhase && i >= kBetween;
      const uint32_t length = search.length();
      if (speed(search.best()) < 0.9 * best) ++lost;
      const double slowness = stalls && length > 0 ? 4 : 1;
      const double seconds = slowness * std::exp(0.05 * noise(random)) * time[length];
      if (search.Observe({seconds, tokens[search.length()]}, true, kSequences))
        search.Advance(tokens, model, kSequences);
    }
  }
  EXPECT_LT(lost, 0.01 * 40 * kStalls * kBetween);
}

// What searches lose by the end on a machine that is fast or slow for some rounds at a time, by a fifth, as one that
// others share was measured to be: the mean of 40 over the second half of the rounds.
double LostOnAnUnevenMachine(uint32_t sequences, int rounds, double lasts) {
  constexpr int kSearches = 40;
  const ByShape tokens = TokensAt(0.7);
  const auto mean = [&](uint32_t k) {
    const int away = std::abs(static_cast<int>(k) - 3);
    return tokens[k] * (away == 0 ? 1.0 : 1.05 + 0.05 * away);
  };
  double slower = 0;
  for (int seed = 1; seed <= kSearches; ++seed) {
    LengthSearch search(4);
    Unevenness machine(0.2, lasts, seed);
    for (int i = 0; i < rounds; ++i) {
      const double slowness = machine.Next();
      const uint32_t length = search.length();
      const double seconds = mean(length) * std::exp(slowness);
      if (i >= rounds / 2) slower += mean(length) / tokens[length] - 1;
      if (search.Observe({seconds, tokens[search.length()]}, true, sequences)) {
        search.Advance(tokens, Straight(1, 0.3), sequences);
      }
    }
  }
  return slower / (kSearches * rounds / 2);
}

// Rounds in turn see through it.
TEST(LengthSearch, AloneItFindsATenthOnAnUnevenMachine) {
  EXPECT_LT(LostOnAnUnevenMachine(1, 4'000, 12), 0.02);
}

// Phases in turn do, where others are there.
TEST(LengthSearch, WithOthersItFindsATenthOnAnUnevenMachine) {
  EXPECT_LT(LostOnAnUnevenMachine(4, 80'000, 48), 0.018);
}

// The first trial of none is one of sequences that are not in step yet, so it may say that none is slower when it is
// faster. It is tried again soon, whatever other lengths' trials have cost meanwhile. 40 searches of four sequences, that
// begin with one candidate; none is a seventh faster, and no other length is.
TEST(LengthSearch, NoneIsTriedAgainWhateverOthersHaveCost) {
  constexpr uint32_t kSequences = 4;
  constexpr int kSlow = 200, kRounds = 20'000;
  constexpr double kNoise = 0.05, kLasts = 48;
  const ByShape tokens = TokensAt(0.7);
  ByShape model, time;
  for (uint32_t k = 0; k < kShapes; ++k) {
    const bool is_offered = tokens[k] > LengthSearch::kNotOffered;
    model[k] = is_offered ? tokens[k] : 1;  // all are as good by that
    time[k] = model[k] * (k == 0 ? 1 : k == 1 ? 1.15 : 1.2);
  }
  int lost = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    LengthSearch search(1);
    Unevenness machine(kNoise, kLasts, seed);
    for (int i = 0; i < kRounds; ++i) {
      const double slowness = machine.Next();
      const uint32_t length = search.length();
      if (search.best() > 0) ++lost;
      const double slow = length == 0 && i < kSlow ? 1.25 : 1;
      const double seconds = slow * time[length] * std::exp(slowness);
      // Drafts that nobody had asked for come late.
      const double brought = search.is_trial() && length > 1 ? 0.01 : tokens[length];
      if (search.Observe({seconds, brought}, true, kSequences)) {
        search.Advance(tokens, model, kSequences);
      }
    }
  }
  EXPECT_LT(lost, 0.2 * 40 * kRounds) << lost / (40.0 * kRounds);
}

// What a round leaves to be done slows the next one, whatever that one's length is. Here a round of eight looks 4 %
// faster than one of three to whoever takes each round for itself, and is 6 % slower.
TEST(LengthSearch, ARoundPaysForTheLengthBeforeIt) {
  ByShape tokens;
  tokens.fill(LengthSearch::kNotOffered);
  tokens[0] = 0.1;
  tokens[1] = 0.5;
  tokens[3] = tokens[8] = 1;
  const auto own = [](uint32_t k) { return k == 3 ? 1.0 : k == 8 ? 1.01 : 1.2; };
  const auto left = [](uint32_t k) { return k == 8 ? 0.05 : 0; };
  for (const uint32_t first : {3, 8}) {
    LengthSearch search(first);
    std::mt19937_64 random(1);
    std::normal_distribution<double> noise;
    uint32_t before = first;
    for (int i = 0; i < 10'000; ++i) {
      const uint32_t length = search.length();
      const double seconds = (own(length) + left(before)) * std::exp(0.05 * noise(random));
      before = length;
      if (search.Observe({seconds, tokens[search.length()]}, true, 1))
        search.Advance(tokens, Straight(1, 0), 1);
    }
    EXPECT_EQ(search.best(), 3u);
  }
}

// One shape seems to have a tenth more tokens, which is less than the error of that.
TEST(LengthSearch, AShapeWhoseTokensAreNotKnownWellReplacesNone) {
  constexpr uint32_t kOther = kFirstConfident;
  for (const double error : {0.0, 0.2}) {
    ByShape tokens = TokensAt(0.7);
    tokens[kOther] = 1.1 * tokens[4];
    ByShape time = Straight(1, 0.15);
    time[kOther] = time[4];
    ByShape errors{};
    errors[kOther] = error;
    LengthSearch search(4);
    int other = 0;
    for (int i = 0; i < 5000; ++i) {
      other += search.best() == kOther ? 1 : 0;
      if (search.Observe({time[search.length()], tokens[search.length()]}, true, 1))
        search.Advance(tokens, time, 1, errors);
    }
    if (error == 0) {
      EXPECT_GT(other, 4000);
    } else {
      EXPECT_EQ(other, 0);
    }
  }
}

TEST(PairedRounds, SlowOnesAreLeftOut) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise;
  PairedRounds pairs;
  for (int i = 0; i < 100; ++i) {
    const double first = i % 17 == 3 ? 9 : 1 + 0.05 * noise(random);
    const double second = i % 23 == 5 ? 20 : 1.2 + 0.05 * noise(random);
    pairs.Add({first}, {second});
  }
  EXPECT_GT(pairs.second_seconds() / pairs.first_seconds(), 1.3) << "the means of all";
  EXPECT_NEAR(pairs.Compare().ratio, std::log(1.2), 0.02);
  EXPECT_LT(pairs.Compare().error, 0.01);
}

// A drafter that looks for what the text has had has few candidates in most rounds, and all of them in a few. These are
// no slow rounds of the machine.
TEST(PairedRounds, RoundsWithManyCandidatesAreNotTakenForSlowOnes) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise;
  PairedRounds pairs, control;
  for (int i = 0; i < 200; ++i) {
    const PairedRounds::Round first = {1 + 0.05 * noise(random), 2};
    PairedRounds::Round second = {1 + 0.05 * noise(random), 2};
    if (i % 5 == 0) second = {2.5 + 0.05 * noise(random), 9};
    if (i % 29 == 3) second.seconds += 8;
    pairs.Add(first, second);
    control.Add({first.seconds}, {second.seconds});
  }
  EXPECT_NEAR(pairs.Compare().ratio, std::log(1.3), 0.03);
  EXPECT_LT(control.Compare().ratio, std::log(1.1)) << "whose candidates are not told";
}

// A plain round gives one token of nine, so each round of such a trial costs most of what it takes.
TEST(LengthSearch, NoDraftThatIsFarWorseIsTriedBriefly) {
  LengthSearch search(8);
  const ByShape tokens = TokensAt(0.99);
  const ByShape time = Straight(1, 0.01);
  uint32_t rounds = 0, longest = 0, trials = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (!search.is_trial() || search.length() != 0) rounds = 0;
    if (search.is_trial() && search.length() == 0) {
      if (++rounds == 1) ++trials;
      longest = std::max(longest, rounds);
    }
    if (search.Observe({time[search.length()], tokens[search.length()]}, true, 1))
      search.Advance(tokens, time, 1);
  }
  EXPECT_GT(trials, 0u);
  EXPECT_LE(longest, 3u);
}

// The first rounds with a draft wait until it has read all texts. Those of a few sequences get ahead of the others, and
// are far faster than theirs and than plain ones. A trial that ends with its first rounds ends with all of them.
TEST(LengthSearch, AFewFastRoundsAreNoMeasureOfATrialThatEndsWithItsFirstOnes) {
  constexpr uint32_t kSequences = 64;
  LengthSearch search(0);
  const ByShape tokens = TokensAt(0.5);
  uint32_t trials = 0, of_trial = 0;
  for (int i = 0; i < 20'000; ++i) {
    const bool drafts = search.length() > 0;
    if (!search.is_trial()) of_trial = 0;
    if (search.is_trial() && of_trial++ == 0) ++trials;
    const bool is_ahead = drafts && i % 20 == 0;
    const double seconds = is_ahead ? 0.3 : drafts ? 5 : 1;
    if (search.Observe({seconds, tokens[search.length()]}, is_ahead || !drafts, kSequences)) {
      search.Advance(tokens, Straight(1, 0.1), kSequences);
    }
    ASSERT_EQ(search.best(), 0u) << "after " << i << " rounds and " << trials << " trials";
  }
  EXPECT_GT(trials, 1u);
}

// A trial ends after a round of each, and those that have begun by then are as long.
TEST(LengthSearch, RoundsThatEndAfterTheirTrialCountAsItsCost) {
  LengthSearch search(0);
  const ByShape tokens = TokensAt(0.5);
  Crowd crowd(search, tokens,
              [](uint32_t length, int, uint32_t) { return length == 0 ? 1.0 : 6.0; });
  crowd.Run(5'000);
  EXPECT_EQ(search.best(), 0u);
  EXPECT_LT(crowd.Run(20'000), 1.0085);
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
  const auto first = [](LengthInputs inputs, int sequences) {
    CommonLength common;
    for (int i = 0; i < sequences; ++i) common.Began();
    AutoLength policy(common, common.Group("", acceptance::Rule::kGreedy));
    return policy.Next(inputs).tokens;
  };
  EXPECT_EQ(first({.pass_time = dear}, 64), 0u);
  EXPECT_EQ(first({.pass_time = cheap}, 64), 4u);
  EXPECT_EQ(first({.pass_time = cheap}, 1), 4u);
  EXPECT_EQ(first({.pass_time = Unknown}, 64), 4u) << "no curve, no opinion";
  EXPECT_EQ(first({.pass_time = cheap, .max_draft_tokens = 2}, 1), 2u);
}

// Under load no draft is the best. A load that is new begins with what the curve says of it, and not with that.
TEST(AutoLength, ANewLoadBeginsAsTheTargetsCurveSays) {
  CommonLength common;
  AutoLength policy(common, common.Group("", acceptance::Rule::kGreedy));
  // Eight rows cost no more than one, and further ones their whole price.
  const auto pass_time = [](uint32_t rows) { return std::max(rows, 8u) * absl::Milliseconds(1); };
  const auto run = [&](int sequences, int rounds) {
    LengthChoice last;
    for (int i = 0; i < rounds; ++i) {
      const LengthChoice choice = policy.Next({.pass_time = pass_time});
      if (!choice.trial) last = choice;
      RoundRecord round = Decided(choice, pass_time(sequences * (choice.tokens + 1)), 3);
      round.stages.draft = choice.tokens * absl::Microseconds(100);
      policy.Observe(round);
    }
    return last.tokens;
  };
  for (int i = 0; i < 64; ++i) common.Began();
  EXPECT_EQ(run(64, 20'000), 0u);
  for (int i = 0; i < 63; ++i) common.Ended();
  run(1, 100);  // the load is a moving average
  EXPECT_GE(run(1, 1), 3u);
}

// Requests come in bursts, and the first rounds of a burst are fast. A trial that a burst ended in goes on in the next one,
// and would win by that. Drafts are a twelfth slower than none. 10 searches, each with 16 sequences.
TEST(AutoLength, TheFirstRoundsAfterAPauseAreNoMeasure) {
  constexpr uint32_t kSequences = 16, kBursts = 150, kRounds = 50;
  double drafted = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    CommonLength common;
    std::vector<std::unique_ptr<AutoLength>> policies;
    for (uint32_t i = 0; i < kSequences; ++i) {
      common.Began();
      policies.push_back(
          std::make_unique<AutoLength>(common, common.Group("", acceptance::Rule::kGreedy)));
    }
    std::mt19937_64 random(seed);
    std::geometric_distribution<uint32_t> accepted(0.5);
    const ByShape tokens = TokensAt(0.5);
    concurrency::Instant now;
    for (uint32_t burst = 0; burst < kBursts; ++burst) {
      for (uint32_t i = 0; i < kRounds; ++i) {
        absl::Duration longest;
        for (const auto& policy : policies) {
          const LengthChoice choice = Next(*policy);
          const absl::Duration took = absl::Milliseconds(10) * tokens[choice.tokens] *
                                      (choice.tokens > 0 ? 1.08 : 1) * (i < 6 ? 0.7 : 1);
          RoundRecord round = Decided(choice, took, accepted(random));
          round.began = now;
          round.decided = now + took;
          policy->Observe(round);
          longest = std::max(longest, took);
          if (2 * burst >= kBursts && choice.tokens > 0) drafted += 1;
        }
        now += longest;
      }
      now += absl::Seconds(5);
    }
  }
  // 0.4 % with it, and 15 % where the first rounds count.
  EXPECT_LT(drafted, 0.03 * 10 * kSequences * kRounds * kBursts / 2);
}

// Another load is another search, and the first one is there when its load comes back.
TEST(AutoLength, EachLoadHasItsOwnLength) {
  CommonLength common;
  common.Began();
  AutoLength policy(common, common.Group("", acceptance::Rule::kGreedy));
  // Returns the mean length of the second half, which has some trials.
  const auto run = [&](absl::Duration each, int rounds) {
    double sum = 0;
    for (int i = 0; i < rounds; ++i) {
      const LengthChoice choice = Next(policy);
      if (2 * i >= rounds) sum += choice.tokens / (0.5 * rounds);
      policy.Observe(Decided(choice, absl::Milliseconds(1) + choice.tokens * each, 3));
    }
    return sum;
  };
  EXPECT_GT(run(absl::Microseconds(20), 3000), 2);
  for (int i = 0; i < 63; ++i) common.Began();
  EXPECT_LT(run(absl::Milliseconds(20), 30'000), 0.1);
  for (int i = 0; i < 63; ++i) common.Ended();
  EXPECT_GT(run(absl::Microseconds(20), 400), 2);
}

// Another class of contexts is another search, which begins with what the first one has found.
TEST(AutoLength, ALongContextHasItsOwnLength) {
  CommonLength common;
  common.Began();
  AutoLength policy(common, common.Group("", acceptance::Rule::kGreedy));
  // Returns the choices that were no trials.
  const auto run = [&](uint32_t context, absl::Duration each, int rounds) {
    std::vector<uint32_t> kept;
    for (int i = 0; i < rounds; ++i) {
      const LengthChoice choice = policy.Next({.pass_time = Unknown, .context = context});
      if (!choice.trial) kept.push_back(choice.tokens);
      policy.Observe(Decided(choice, absl::Milliseconds(1) + choice.tokens * each, 3));
    }
    return kept;
  };
  const uint32_t brief = run(100, absl::Microseconds(20), 3000).back();
  EXPECT_GE(brief, 3u);
  const std::vector<uint32_t> more = run(8000, absl::Milliseconds(20), 10'000);
  EXPECT_EQ(more.front(), brief) << "it begins as its neighbour";
  EXPECT_EQ(more.back(), 0u);
  EXPECT_EQ(run(100, absl::Microseconds(20), 200).front(), brief) << "and takes nothing from it";
}

// Blocks end by a confidence that each load has of its own, so its acceptance is its own, too.
TEST(AutoLength, EachLoadHasItsOwnAcceptance) {
  CommonLength common;
  common.Began();
  AutoLength policy(common, common.Group("", acceptance::Rule::kGreedy));
  const auto alpha = [&](int rounds, uint32_t accepted) {
    double last = 0;
    for (int i = 0; i < rounds; ++i) {
      const LengthChoice choice = Next(policy);
      last = choice.estimates.alpha.value_or(last);
      policy.Observe(Decided(choice, absl::Milliseconds(1), accepted));
    }
    return last;
  };
  EXPECT_GT(alpha(2000, 16), 0.95);
  for (int i = 0; i < 63; ++i) common.Began();
  EXPECT_LT(alpha(2000, 0), 0.5) << "from few tests";
  for (int i = 0; i < 63; ++i) common.Ended();
  alpha(100, 16);  // the load is a moving average
  EXPECT_GT(alpha(1, 16), 0.9);
}

// Where the drafter ends blocks after two tokens, all longer ones are the same block.
TEST(AutoLength, TriesNoLengthThatAddsNoToken) {
  CommonLength common;
  common.Began();
  AutoLength policy(common, common.Group("", acceptance::Rule::kGreedy));
  std::vector<uint32_t> chosen(kMaxDraftTokens + 1);
  for (int i = 0; i < 5000; ++i) {
    const LengthChoice choice = Next(policy);
    ++chosen[choice.tokens];
    const uint32_t came = std::min(choice.tokens, 2u);
    RoundRecord round = Decided(choice, absl::Milliseconds(1) + came * absl::Microseconds(50), 2);
    round.draft_tokens = came;
    policy.Observe(round);
  }
  EXPECT_GT(chosen[2] + chosen[3] + chosen[4], 4500u);
  EXPECT_EQ(std::accumulate(chosen.begin() + 5, chosen.end(), 0u), 0u);
}

// ---- trees ----

// A round of a system in which `pass_rows` says what rows cost, and a tree of n nodes has log2(n) tokens.
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

// A target that takes short blocks alone: the search goes on among these.
TEST(AutoLength, KeepsToTheLongestPathThatTheTargetTakes) {
  CommonLength common;
  common.Began();
  AutoLength policy(common, common.Group("", acceptance::Rule::kSpeculative));
  std::vector<uint32_t> chosen(kMaxDraftTokens + 1);
  for (int i = 0; i < 4000; ++i) {
    const LengthChoice choice = policy.Next({.pass_time = Unknown, .max_draft_tokens = 2});
    ASSERT_LE(choice.tokens, 2u);
    ++chosen[choice.tokens];
    // One token is as good as two, and a draft token takes half a pass.
    policy.Observe(Decided(choice, absl::Milliseconds(2 + choice.tokens), 1));
  }
  EXPECT_GT(chosen[1], 3000u);
  EXPECT_GT(chosen[0], 10u) << "it was tried";
}

TEST(TreeEstimate, CountsWhatItSeesAndForgets) {
  TreeEstimate estimate;
  const uint32_t smallest = kFirstTree;
  const uint32_t larger = kFirstTree + 1;
  EXPECT_NEAR(estimate.Tokens(smallest, 2), 2.08, 1e-9) << "from the longest chain";
  EXPECT_GT(estimate.Tokens(larger, 2), estimate.Tokens(smallest, 2));
  EXPECT_NEAR(estimate.Tokens(smallest, 17), 5, 1e-9) << "no more than a path has, and one";
  EXPECT_EQ(estimate.Nodes(larger), 16);
  for (int i = 0; i < 500; ++i) estimate.Observe(smallest, 6, 3);
  EXPECT_NEAR(estimate.Tokens(smallest, 2), 4, 0.1);
  EXPECT_NEAR(estimate.Nodes(smallest), 6, 1e-9);
  EXPECT_EQ(estimate.Nodes(larger), 16) << "another shape";
  for (int i = 0; i < 5000; ++i) estimate.Observe(smallest, 0, 0);
  EXPECT_LT(estimate.Tokens(smallest, 2), 1.2);
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
