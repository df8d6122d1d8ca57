// Whether texts follow the target's distribution while the policy "auto" changes the length again
// and again; and that the same test sees a length that depends on what was drawn.
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
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
constexpr uint32_t kTokens = 20;
constexpr int kTexts = 2500;
constexpr int kTextsAGroup = 125;  // that learn together, from nothing on
constexpr uint32_t kJoint = 4;

struct Outcome {
  ChiSquare joint;
  std::set<uint32_t> lengths;  // that the policy asked for
  std::set<uint32_t> nodes;    // the same; 0: a chain
  std::set<double> confidences;
  int changes = 0;  // from one Advance to the next
};

struct Setting {
  bool cuts =
      false;  // a length that looks at what was drawn: a block ends before its first token 0
  bool trees = false;        // the policy chooses trees, too
  bool draws_again = false;  // a target that is wrong about trees (table_sequence.h)
  bool doubts = false;       // a draft that ends chains by confidence: before their first token 0
};

Outcome Measure(acceptance::Rule rule, int texts, const Setting& setting) {
  Outcome outcome;
  std::optional<CommonLength> lengths;
  std::mt19937_64 random(7);
  JointCounts counts(kVocabulary, kJoint);
  uint32_t last = 0;
  for (int i = 0; i < texts; ++i) {
    // Confidences are tried after short lengths, by rounds that have room for them.
    const int texts_a_group = setting.doubts ? texts / 2 : kTextsAGroup;
    if (i % texts_a_group == 0) lengths.emplace();
    GenerationRequest request = SmallRequest(std::nullopt, 1.0);
    request.length_mode = LengthMode::kAuto;
    request.rule = rule;
    request.auto_nodes = setting.trees;
    request.draft_nodes = setting.trees ? 64 : 0;
    request.seed = 1'000 + static_cast<uint64_t>(i);
    request.max_tokens = setting.doubts ? 4 * kTokens : kTokens;
    HarnessOptions options;
    options.vocabulary_size = kVocabulary;
    options.draft_noise = 1;
    options.lengths = &*lengths;
    LoopHarness harness(request, options);
    harness.target.draws_again = setting.draws_again;
    harness.draft.ends_by_confidence = setting.doubts;
    harness.draft.max_nodes = harness.target.max_nodes = request.draft_nodes;
    // What a draft token costs is another thing with every other group. So is the best length.
    harness.draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock& reply) {
      const size_t committed = advance.prefix.keep + advance.prefix.tokens.size();
      if (committed + kMaxDraftTokens < request.max_length()) {  // else the text's end decides, too
        outcome.lengths.insert(advance.max_draft_tokens);
        outcome.nodes.insert(advance.max_nodes);
        if (std::exchange(last, advance.max_draft_tokens) != advance.max_draft_tokens) {
          ++outcome.changes;
        }
      }
      outcome.confidences.insert(advance.min_confidence);
      const double each = setting.trees || (i / texts_a_group) % 2 == 0 ? 5 : 300;
      harness.clock.Advance(absl::Microseconds(each * advance.max_draft_tokens));
      if (!setting.cuts && advance.min_confidence == 0) return FakeDraft::Do::kAnswer;
      auto& tokens = reply.block.tokens;
      const auto cut = std::find(tokens.begin(), tokens.end(), 0u);
      if (setting.cuts) reply.block.q.resize(cut - tokens.begin());
      tokens.erase(cut, tokens.end());
      return FakeDraft::Do::kAnswer;
    };
    harness.target.on_step = [&](const VerifyStep&, VerifyReply& reply) {
      // Of a pass of others, a few more rows cost nothing; with every other group of texts they
      // have their price.
      if (setting.trees && (i / texts_a_group) % 2 == 0) reply.pass_rows = 500;
      const double jitter = std::uniform_real_distribution<double>(0.95, 1.05)(random);
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
  const Outcome outcome = Measure(GetParam(), kTexts, {});
  EXPECT_TRUE(outcome.joint.Passes()) << outcome.joint.ToString();
  EXPECT_GE(outcome.lengths.size(), 2u);
  EXPECT_GE(outcome.changes, 20);
}

// Chains and trees alternately, on the same sequence.
TEST(AutoTreesTest, FollowTheTargetsDistribution) {
  const Outcome outcome = Measure(acceptance::Rule::kCoupled, 3 * kTexts, {.trees = true});
  EXPECT_TRUE(outcome.joint.Passes()) << outcome.joint.ToString();
  EXPECT_GE(outcome.nodes.size(), 2u);
  EXPECT_TRUE(outcome.nodes.contains(0));
  EXPECT_GE(outcome.changes, 20);
}

// Under coupled a chain may end by what was drawn. ALengthThatLooksAtWhatWasDrawnIsSeen says what
// comes of it elsewhere.
TEST(AutoConfidenceTest, FollowsTheTargetsDistribution) {
  const Outcome outcome = Measure(acceptance::Rule::kCoupled, kTexts, {.doubts = true});
  EXPECT_TRUE(outcome.joint.Passes()) << outcome.joint.ToString();
  EXPECT_GE(outcome.confidences.size(), 2u) << "0 alone: none was asked for";
}

INSTANTIATE_TEST_SUITE_P(Rules, AutoTest,
                         ::testing::Values(acceptance::Rule::kSpeculative, acceptance::Rule::kBlock,
                                           acceptance::Rule::kCoupled),
                         [](const auto& info) { return acceptance::Name(info.param); });

TEST(AutoControl, ALengthThatLooksAtWhatWasDrawnIsSeen) {
  const Outcome outcome = Measure(acceptance::Rule::kSpeculative, kTexts, {.cuts = true});
  EXPECT_TRUE(outcome.joint.ControlIsCaught()) << outcome.joint.ToString();
}

TEST(AutoControl, ATargetThatDrawsAgainBelowATreeIsSeen) {
  const Outcome outcome =
      Measure(acceptance::Rule::kCoupled, 3 * kTexts, {.trees = true, .draws_again = true});
  EXPECT_TRUE(outcome.joint.ControlIsCaught()) << outcome.joint.ToString();
}

}  // namespace
}  // namespace tandem::orchestrator::length_exactness_test
