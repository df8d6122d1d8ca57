// The log probabilities of a block's nodes are those of one-token decoding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "target_service/engine/judging.h"
#include "tests/target_service/every_option.h"

namespace tandem::target_service::logprobs_test {
namespace {

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};
constexpr uint32_t kVocabulary = 8;
constexpr float kNever = -std::numeric_limits<float>::infinity();

void AskFor(internal::v1::SequenceOptions& options, uint32_t top, bool processed) {
  options.mutable_logprobs()->set_top(top);
  options.mutable_logprobs()->set_processed(processed);
}

// Of each token, from a Step without draft tokens, as plain decoding asks: all that are above 0 are
// among the most likely ones.
std::vector<float> OneTokenDecoding(const internal::v1::SequenceOptions& options,
                                    const std::vector<uint32_t>& context) {
  Harness plain;
  auto stream = plain.Connect();
  internal::v1::SequenceOptions all = options;
  all.mutable_logprobs()->set_top(kVocabulary);
  const internal::v1::Verdict verdict = plain.Ask(stream, FirstStep(1, context, {}, all));
  TANDEM_CHECK(verdict.entries_size() == 1) << verdict.ShortDebugString();
  std::vector<float> logprobs(kVocabulary, kNever);
  for (const v1::TokenLogprob& entry : verdict.entries(0).logprobs().top().tokens()) {
    logprobs[entry.token()] = entry.logprob();
  }
  return logprobs;
}

void ExpectNear(float a, float b, const char* what) {
  if (std::isinf(a) || std::isinf(b)) {
    EXPECT_EQ(a, b) << what;
  } else {
    EXPECT_NEAR(a, b, 1e-6) << what;
  }
}

TEST(TargetLogprobs, NoneUnlessAskedFor) {
  Harness target;
  auto stream = target.Connect();
  const internal::v1::Verdict verdict = target.Ask(stream, FirstStep(1, kPrompt, {1, 2}));
  for (const internal::v1::Entry& entry : verdict.entries()) {
    EXPECT_FALSE(entry.has_logprobs());
  }
}

TEST(TargetLogprobs, OfTheModelItselfAndOfP) {
  Harness target;
  auto stream = target.Connect();
  const std::vector<float> logits = target.LogitsAfter(kPrompt);
  double sum = 0;
  for (float logit : logits) sum += std::exp(static_cast<double>(logit));
  internal::v1::SequenceOptions options = EveryOption(EveryRule()[1], 5);
  for (bool processed : {false, true}) {
    AskFor(options, kVocabulary, processed);
    const sampling::Distribution p = target.P(options, kPrompt);
    const internal::v1::Verdict verdict = target.Ask(stream, FirstStep(1, kPrompt, {}, options));
    const auto& top = verdict.entries(0).logprobs().top();
    ASSERT_EQ(static_cast<size_t>(top.tokens_size()), processed ? p.ids.size() : kVocabulary);
    float before = std::numeric_limits<float>::infinity();
    for (const v1::TokenLogprob& entry : top.tokens()) {
      const double expected =
          processed ? std::log(p(entry.token())) : logits[entry.token()] - std::log(sum);
      EXPECT_NEAR(entry.logprob(), expected, 1e-6);
      EXPECT_LE(entry.logprob(), before) << "the most likely come first";
      before = entry.logprob();
    }
    AskFor(options, 2, processed);
    const internal::v1::Verdict two = target.Ask(stream, FirstStep(1, kPrompt, {}, options));
    ASSERT_EQ(two.entries(0).logprobs().top().tokens_size(), 2);
    EXPECT_EQ(two.entries(0).logprobs().top().tokens(1).token(), top.tokens(1).token());
    AskFor(options, 0, processed);
    const internal::v1::Verdict bare = target.Ask(stream, FirstStep(1, kPrompt, {}, options));
    EXPECT_FALSE(bare.entries(0).logprobs().has_top());
    EXPECT_TRUE(bare.entries(0).logprobs().has_next_token());
  }
}

// accepted, recovered and bonus tokens alike, and the draft tokens that did not stand.
TEST(TargetLogprobs, EqualThoseOfOneTokenDecodingUnderEveryRule) {
  int kinds[3] = {0, 0, 0};  // accepted, replaced, bonus
  for (const RuleCase& rule : EveryRule()) {
    for (bool processed : {false, true}) {
      std::mt19937 random(11);
      auto pick = [&random](uint32_t below) { return static_cast<uint32_t>(random() % below); };
      Harness target;
      auto stream = target.Connect();
      internal::v1::SequenceOptions options = EveryOption(rule, 5);
      AskFor(options, 3, processed);
      const acceptance::Rule judged = target.SettingsOf(options).rule;
      std::vector<uint32_t> committed = kPrompt;
      for (uint64_t round = 1; round <= 25; ++round) {
        std::vector<uint32_t> candidates(1 + pick(4));
        std::vector<uint32_t> path = committed;
        for (uint32_t& candidate : candidates) {
          candidate = pick(3) > 0 ? sampling::ArgMax(target.LogitsAfter(path), 8) : pick(8);
          path.push_back(candidate);
        }
        internal::v1::Step step =
            MakeStep(1, round, committed,
                     round == 1 ? 0 : static_cast<uint32_t>(committed.size()) - 1, candidates);
        if (round == 1) *step.mutable_options() = options;
        const internal::v1::Verdict verdict = target.Ask(stream, step);
        ASSERT_EQ(verdict.status(), internal::v1::STATUS_OK) << verdict.ShortDebugString();
        path = committed;
        for (int i = 0; i < verdict.entries_size(); ++i) {
          const internal::v1::Entry& entry = verdict.entries(i);
          const std::vector<float> plain = OneTokenDecoding(options, path);
          const internal::v1::NodeLogprobs& told = entry.logprobs();
          EXPECT_EQ(told.has_next_token(), entry.has_next_token());
          if (told.has_next_token()) {
            ExpectNear(told.next_token(), plain[entry.next_token()], rule.name);
          }
          ASSERT_LE(told.top().tokens_size(), 3);
          for (const v1::TokenLogprob& other : told.top().tokens()) {
            ExpectNear(other.logprob(), plain[other.token()], rule.name);
          }
          const bool last = i + 1 == verdict.entries_size();
          ASSERT_EQ(told.has_candidate(), !last);
          if (last) break;
          ExpectNear(told.candidate(), plain[candidates[static_cast<size_t>(i)]], rule.name);
          path.push_back(candidates[static_cast<size_t>(i)]);
        }
        const acceptance::Decision decision =
            DecideOf(options, verdict, static_cast<uint32_t>(committed.size()), judged);
        kinds[0] += static_cast<int>(decision.accepted);
        ++kinds[decision.rejected ? 1 : 2];
        committed.insert(committed.end(), candidates.begin(),
                         candidates.begin() + decision.accepted);
        committed.push_back(decision.next_token);
      }
    }
  }
  for (int count : kinds) EXPECT_GT(count, 20) << "each kind came up";
}

// A history that forgets the draft tokens would show in the log probabilities too.
TEST(TargetLogprobs, OfPKnowTheCandidatesBefore) {
  Harness target;
  auto stream = target.Connect();
  internal::v1::SequenceOptions options = OptionsOf(EveryRule()[1]);
  options.set_prompt_tokens(5);
  options.mutable_sampling()->set_frequency_penalty(1);
  AskFor(options, 0, true);
  const internal::v1::Verdict verdict =
      target.Ask(stream, FirstStep(1, kPrompt, {3, 3, 3}, options));
  sampling::TokenHistory forgetful(5);
  forgetful.Append(kPrompt);
  const std::vector<uint32_t> context = {1, 2, 3, 4, 5, 3, 3};
  const sampling::Distribution wrong = sampling::MakeDistribution(
      target.LogitsAfter(context), 8, target.SettingsOf(options).sampling, forgetful);
  EXPECT_NEAR(verdict.entries(2).logprobs().candidate(), std::log(target.P(options, context)(3)),
              1e-6);
  EXPECT_GT(std::abs(verdict.entries(2).logprobs().candidate() - std::log(wrong(3))), 0.1);
}

TEST(TargetLogprobs, OfTokensThatCannotComeAreMinusInfinity) {
  CpuEngineOptions engine;
  engine.vocabulary_size = 7;  // the model's embedding is padded to 8
  Harness target({}, {}, engine);
  auto stream = target.Connect();
  internal::v1::SequenceOptions options = OptionsOf(EveryRule()[1]);
  options.mutable_sampling()->add_banned_token_ids(3);
  for (bool processed : {false, true}) {
    AskFor(options, 20, processed);
    const internal::v1::Verdict verdict =
        target.Ask(stream, FirstStep(1, kPrompt, {3, 7, 9, 1}, options));
    EXPECT_EQ(std::isinf(verdict.entries(0).logprobs().candidate()), processed);
    EXPECT_EQ(verdict.entries(1).logprobs().candidate(), kNever);
    EXPECT_EQ(verdict.entries(2).logprobs().candidate(), kNever);
    for (const internal::v1::Entry& entry : verdict.entries()) {
      double sum = 0;
      for (const v1::TokenLogprob& other : entry.logprobs().top().tokens()) {
        sum += std::exp(static_cast<double>(other.logprob()));
      }
      EXPECT_EQ(entry.logprobs().top().tokens_size(), processed ? 6 : 7);
      EXPECT_NEAR(sum, 1, 1e-6);
    }
  }
}

// The model's own log probabilities need all of its logits; p does not need the banned ones.
TEST(TargetLogprobs, ABrokenLogitIsTheModelsFault) {
  speculation::SequenceSettings settings;
  settings.rule = acceptance::Rule::kSpeculative;
  settings.sampling.banned = {1};
  const std::vector<float> logits = {0, std::numeric_limits<float>::quiet_NaN(), 1};
  auto judged = [&] {
    return JudgeRows(acceptance::Judge, settings, speculation::CandidateTree(), 1, nullptr,
                     {logits.data(), 1, 3}, 0, 3);
  };
  EXPECT_TRUE(judged().ok());
  settings.logprobs = sampling::LogprobOptions{0, true};
  EXPECT_TRUE(judged().ok());
  settings.logprobs = sampling::LogprobOptions{0, false};
  EXPECT_EQ(judged().status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(JudgePromptRow(settings, nullptr, logits, 1, 0, 3).status().code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace tandem::target_service::logprobs_test
