#include "orchestrator/draft/prepared_blocks.h"

#include <gtest/gtest.h>

namespace tandem::orchestrator {
namespace {

constexpr base::BlockId kBase{5};

PreparedBlock For(uint32_t node, uint32_t next_token, uint32_t draft_token,
                  base::BlockId base = kBase) {
  PreparedBlock prepared{base, node, next_token, {}};
  prepared.block.id = base::BlockId{100 + draft_token};
  prepared.block.tokens = {draft_token};
  return prepared;
}

TEST(PreparedBlocks, TheOneWhoseAssumptionCameTrueIsTaken) {
  PreparedBlocks blocks;
  blocks.Begin(kBase, 10);
  blocks.Add(For(2, 7, 1));
  blocks.Add(For(2, 8, 2));
  blocks.Add(For(1, 8, 3));
  blocks.Decided({kBase, 2, 8});
  PreparedBlocks::Taken taken = blocks.Take(13);
  EXPECT_EQ(taken.use, PreparedUse::kHit);
  EXPECT_EQ(taken.block.tokens, std::vector<uint32_t>{2});
  EXPECT_EQ(blocks.Take(13).use, PreparedUse::kNone) << "once";
}

TEST(PreparedBlocks, OfAnotherBaseCountForNothing) {
  PreparedBlocks blocks;
  blocks.Add(For(2, 8, 1));
  blocks.Begin(kBase, 10);
  blocks.Add(For(2, 8, 2, base::BlockId{4}));
  blocks.Decided({kBase, 2, 8});
  EXPECT_EQ(blocks.Take(13).use, PreparedUse::kLate);
  blocks.Begin(kBase, 10);
  blocks.Add(For(2, 8, 3));
  blocks.Decided({base::BlockId{4}, 2, 8});
  EXPECT_EQ(blocks.Take(13).use, PreparedUse::kNone);
}

// A round without a draft went between.
TEST(PreparedBlocks, AreOfNoUseOnceTheTextWentOn) {
  PreparedBlocks blocks;
  blocks.Begin(kBase, 10);
  blocks.Add(For(2, 8, 1));
  blocks.Decided({kBase, 2, 8});
  EXPECT_EQ(blocks.Take(14).use, PreparedUse::kNone);
  EXPECT_EQ(blocks.Take(13).use, PreparedUse::kNone) << "dropped";
}

TEST(PreparedBlocks, AreBounded) {
  PreparedBlocks blocks;
  blocks.Begin(kBase, 10);
  for (uint32_t token = 0; token < 3 * kMaxOutcomes; ++token) blocks.Add(For(0, token, token));
  EXPECT_EQ(blocks.blocks().size(), kMaxOutcomes);
  blocks.Begin(base::BlockId{6}, 11);
  EXPECT_EQ(blocks.blocks().size(), 0u);
}

}  // namespace
}  // namespace tandem::orchestrator
