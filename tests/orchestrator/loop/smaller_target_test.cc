// A failover to a target that takes shorter blocks than the one before. The block of the round was
// drafted for the old target, so it is not a fault of the draft that the new one would refuse it.
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator {
namespace {

using ::testing::Each;
using ::testing::Le;
using ::testing::SizeIs;
using TargetDo = FakeTarget::Do;
using DraftDo = FakeDraft::Do;

constexpr uint32_t kBlock = 4;

// Cuts the stream at the third Step; the next one is a target with another limit.
struct Moved {
  Moved(const GenerationRequest& request, uint32_t limit) : harness(request) {
    harness.target.on_step = [this, limit](const VerifyStep& step, VerifyReply& reply) {
      if (harness.target.steps == 4) after = step.block;
      EXPECT_NE(reply.status, VerifyReply::Status::kInvalid) << reply.message;
      if (harness.target.steps != 3) return TargetDo::kAnswer;
      before = step.block;
      harness.target.max_draft_tokens = limit;
      harness.target.Disconnect();
      harness.target.Connect();
      return TargetDo::kDrop;
    };
    harness.draft.on_advance = [this](const DraftAdvance& advance, DraftReplyBlock&) {
      if (harness.target.steps >= 4) asked.push_back(advance.max_draft_tokens);
      return DraftDo::kAnswer;
    };
    harness.Start();
    harness.Run();
  }

  void ExpectSound() const {
    ASSERT_TRUE(harness.ending.has_value());
    ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
    EXPECT_EQ(harness.ending->counts.target_replays, 1u);
    // Nothing counts against the draft.
    EXPECT_EQ(harness.plain_rounds(PlainCause::kDraftInvalid), 0u);
    EXPECT_EQ(harness.ending->counts.draft_reconnections, 0u);
    EXPECT_EQ(harness.draft.opens, 1);
    ASSERT_THAT(before.tokens, SizeIs(kBlock));
  }

  LoopHarness harness;
  CandidateTree before;  // the block at the old target
  CandidateTree after;   // the same at the new one
  std::vector<uint32_t> asked;
};

std::vector<uint32_t> FirstOf(const std::vector<uint32_t>& tokens, uint32_t count) {
  return {tokens.begin(), tokens.begin() + count};
}

TEST(SmallerTarget, TheBlockIsCutAndTheDraftIsKept) {
  for (uint32_t limit = 1; limit < kBlock; ++limit) {
    for (acceptance::Rule rule : {acceptance::Rule::kGreedy, acceptance::Rule::kCoupled}) {
      GenerationRequest request =
          SmallRequest(kBlock, rule == acceptance::Rule::kGreedy ? 0.0 : 1.0);
      request.rule = rule;
      const Moved moved(request, limit);
      moved.ExpectSound();
      EXPECT_EQ(moved.after.tokens, FirstOf(moved.before.tokens, limit));
      EXPECT_EQ(moved.after.id, moved.before.id);
      EXPECT_EQ(moved.harness.output(), moved.harness.PlainIds());
      EXPECT_FALSE(moved.asked.empty());
      EXPECT_THAT(moved.asked, Each(Le(limit)));
    }
  }
}

// A q that does not belong to its token would shift the output.
TEST(SmallerTarget, EachTokenKeepsItsDistribution) {
  const Moved moved(SmallRequest(kBlock, 1.0), 2);
  moved.ExpectSound();
  ASSERT_THAT(moved.before.q, SizeIs(kBlock));
  ASSERT_THAT(moved.after.q, SizeIs(2));
  EXPECT_EQ(moved.after.tokens, FirstOf(moved.before.tokens, 2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(moved.after.q[i].ids, moved.before.q[i].ids);
    EXPECT_EQ(moved.after.q[i].weights, moved.before.q[i].weights);
  }
}

TEST(SmallerTarget, OneThatTakesNoBlocksDecodesPlainly) {
  const Moved moved(SmallRequest(kBlock), 0);
  moved.ExpectSound();
  EXPECT_TRUE(moved.after.empty());
  EXPECT_TRUE(moved.asked.empty());
  EXPECT_EQ(moved.harness.output(), moved.harness.PlainIds());
  EXPECT_GT(moved.harness.plain_rounds(PlainCause::kPolicyZero), 0u);
}

}  // namespace
}  // namespace tandem::orchestrator
