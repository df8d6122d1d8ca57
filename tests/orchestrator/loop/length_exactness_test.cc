// Whether texts follow the target's distribution while the policy "auto" changes the length again and
// again; and that the same test sees a length that depends on what was drawn.
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/draft/length/common_length.h"
#include "tests/orchestrator/harness/joint_distribution.h"
#include "tests/orchestrator/harness/loop_harness.h"
#include "tests/support/chi_square.h"

namespace tandem::orchestrator::length_exactness_test {
namespace {

using testing::ChiSquare;

constexpr uint32_t kVocabulary = 4;
constexpr uint32_t kTokens = 7;
constexpr uint32_t kJoint = 4;

struct Outcome {
  ChiSquare joint;
  std::set<uint32_t> lengths;  // that were asked for
  int changes = 0;             // from one Advance to the next
};

// `cuts`: a length that looks at what was drawn. A block ends before its first token 0.
Outcome Measure(acceptance::Rule rule, int texts, bool cuts) {
  Outcome outcome;
  CommonLength lengths;
  std::mt19937_64 random(7);
  JointCounts counts(kVocabulary, kJoint);
  uint32_t last = 0;
  int round = 0;
  for (int i = 0; i < texts; ++i) {
    GenerationRequest request = SmallRequest(std::nullopt, 1.0);
    request.length_mode = LengthMode::kAuto;
    request.rule = rule;
    request.seed = 1'000 + static_cast<uint64_t>(i);
    request.max_tokens = kTokens;
    HarnessOptions options;
    options.vocabulary_size = kVocabulary;
    options.draft_noise = 1;
    options.lengths = &lengths;
    LoopHarness harness(request, options);
    // What a draft token costs changes from time to time. So does the best length.
    harness.draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock& reply) {
      outcome.lengths.insert(advance.max_draft_tokens);
      if (std::exchange(last, advance.max_draft_tokens) != advance.max_draft_tokens) {
        ++outcome.changes;
      }
      const double each = (++round / 400) % 2 == 0 ? 20 : 300;
      harness.clock.Advance(absl::Microseconds(each * advance.max_draft_tokens));
      if (!cuts) return FakeDraft::Do::kAnswer;
      auto& tokens = reply.block.tokens;
      const auto cut = std::find(tokens.begin(), tokens.end(), 0u);
      reply.block.q.resize(cut - tokens.begin());
      tokens.erase(cut, tokens.end());
      return FakeDraft::Do::kAnswer;
    };
    harness.target.on_step = [&](const VerifyStep&, VerifyReply&) {
      const double jitter = std::uniform_real_distribution<double>(0.7, 1.3)(random);
      harness.clock.Advance(jitter * absl::Milliseconds(1));
      return FakeTarget::Do::kAnswer;
    };
    harness.Start();
    harness.Run();
    EXPECT_TRUE(harness.ending.has_value() && harness.ending->status.ok());
    counts.Add(harness.target_model, request.prompt, harness.output());
  }
  outcome.joint = counts.Fit();
  return outcome;
}

class AutoTest : public ::testing::TestWithParam<acceptance::Rule> {};

TEST_P(AutoTest, FollowsTheTargetsDistribution) {
  const Outcome outcome = Measure(GetParam(), 4000, /*cuts=*/false);
  EXPECT_TRUE(outcome.joint.Passes()) << outcome.joint.ToString();
  EXPECT_GE(outcome.lengths.size(), 3u);
  EXPECT_GE(outcome.changes, 20);
}

INSTANTIATE_TEST_SUITE_P(Rules, AutoTest,
                         ::testing::Values(acceptance::Rule::kSpeculative, acceptance::Rule::kBlock,
                                           acceptance::Rule::kCoupled),
                         [](const auto& info) { return acceptance::Name(info.param); });

TEST(AutoControl, ALengthThatLooksAtWhatWasDrawnIsSeen) {
  const Outcome outcome = Measure(acceptance::Rule::kSpeculative, 4000, /*cuts=*/true);
  EXPECT_TRUE(outcome.joint.ControlIsCaught()) << outcome.joint.ToString();
}

}  // namespace
}  // namespace tandem::orchestrator::length_exactness_test
