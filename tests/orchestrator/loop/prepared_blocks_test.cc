// Blocks that the draft prepared in advance, through the whole loop.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator {
namespace {

GenerationRequest PreparingRequest(double temperature, uint64_t seed, uint32_t prepare = 16) {
  GenerationRequest request = SmallRequest(/*draft_tokens=*/3, temperature);
  request.rule = temperature == 0 ? acceptance::Rule::kGreedy : acceptance::Rule::kCoupled;
  request.seed = seed;
  request.max_tokens = 60;
  request.prepare = prepare;
  return request;
}

struct Uses {
  uint32_t hits, misses, late;
};
Uses UsesOf(const LoopHarness& harness) {
  const uint32_t* rounds = harness.ending->counts.prepared_rounds;
  return {rounds[static_cast<int>(PreparedUse::kHit)], rounds[static_cast<int>(PreparedUse::kMiss)],
          rounds[static_cast<int>(PreparedUse::kLate)]};
}

class PreparedText : public ::testing::TestWithParam<double> {};

// The harness's draft checks the prefix that each Advance builds on, so what it is told after hits
// is right, too.
TEST_P(PreparedText, IsTheTargetsOwnAndNeedsFewerAdvances) {
  uint32_t hits = 0, misses = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    LoopHarness harness(PreparingRequest(GetParam(), seed));
    harness.draft.prepares = true;
    harness.Start();
    harness.Run();
    ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
    ASSERT_EQ(harness.output(), harness.PlainIds()) << "seed " << seed;
    const Uses uses = UsesOf(harness);
    EXPECT_EQ(uses.hits, harness.draft.taken);
    EXPECT_EQ(uses.late, 0u);
    // A round each, but for the first, which has no draft.
    EXPECT_EQ(harness.draft.advances + harness.draft.taken, harness.draft.submitted);
    hits += uses.hits;
    misses += uses.misses;
  }
  EXPECT_GT(hits, misses);
}

TEST_P(PreparedText, IsTheTargetsOwnWhateverTheDraftPrepares) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    LoopHarness harness(PreparingRequest(GetParam(), seed));
    harness.draft.prepares = true;
    uint32_t count = 0;
    harness.draft.on_prepared = [&](PreparedBlock& prepared) {
      switch (++count % 5) {
        case 0:
          prepared.block.tokens = {7, 7, 7, 9999};
          return true;
        case 1:
          prepared.block.tokens.clear();
          return true;
        case 2:
          prepared.block.parents = {0, 0, 0};
          return true;
        case 3:
          return false;
        default:
          return true;
      }
    };
    harness.Start();
    harness.Run();
    ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
    ASSERT_EQ(harness.output(), harness.PlainIds()) << "seed " << seed;
  }
}

TEST_P(PreparedText, IsTheTargetsOwnWhereDraftsBreak) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    LoopHarness harness(PreparingRequest(GetParam(), seed));
    harness.draft.prepares = true;
    harness.draft.others = 100;
    uint32_t count = 0;
    harness.draft.on_prepared = [&](PreparedBlock&) {
      if (++count % 37 == 0) harness.draft.Break();
      return true;
    };
    harness.Start();
    harness.Run();
    ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
    ASSERT_EQ(harness.output(), harness.PlainIds()) << "seed " << seed;
    EXPECT_GT(harness.draft.opens, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Temperatures, PreparedText, ::testing::Values(0.0, 0.7, 1.0),
                         [](const auto& test) {
                           return "t" + std::to_string(static_cast<int>(test.param * 10));
                         });

TEST(PreparedBlocks, ThatCameTooLateAreNotWaitedFor) {
  LoopHarness harness(PreparingRequest(0, 1));
  harness.draft.prepares = true;
  harness.draft.on_prepared = [](PreparedBlock&) { return false; };
  harness.Start();
  harness.Run();
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_EQ(UsesOf(harness).hits, 0u);
  EXPECT_GT(UsesOf(harness).late, 5u);
}

TEST(PreparedBlocks, AreNotAskedForWhereTheDraftCannotOrNobodyWantsThem) {
  for (const bool prepares : {false, true}) {
    LoopHarness harness(PreparingRequest(0, 1, /*prepare=*/prepares ? 0 : 16));
    harness.draft.prepares = prepares;
    harness.draft.on_advance = [](const DraftAdvance& advance, DraftReplyBlock&) {
      EXPECT_EQ(advance.max_outcomes, 0u);
      return FakeDraft::Do::kAnswer;
    };
    harness.Start();
    harness.Run();
    EXPECT_EQ(harness.output(), harness.PlainIds());
    EXPECT_EQ(UsesOf(harness).hits, 0u);
  }
}

}  // namespace
}  // namespace tandem::orchestrator
