// Blocks that the draft prepared in advance, through the whole loop.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

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
  int hits, chained, misses, late;
};
Uses UsesOf(const LoopHarness& harness) {
  const uint32_t* rounds = harness.ending->counts.prepared_rounds;
  const auto of = [&](PreparedUse use) { return static_cast<int>(rounds[static_cast<int>(use)]); };
  return {of(PreparedUse::kHit), of(PreparedUse::kChained), of(PreparedUse::kMiss),
          of(PreparedUse::kLate)};
}

class PreparedText : public ::testing::TestWithParam<double> {};

// The harness's draft checks the prefix that each Advance builds on, so what it is told after hits
// is right, too.
TEST_P(PreparedText, IsTheTargetsOwnAndNeedsFewerAdvances) {
  int hits = 0, misses = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    LoopHarness harness(PreparingRequest(GetParam(), seed));
    harness.draft.prepares = true;
    harness.Start();
    harness.Run();
    ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
    ASSERT_EQ(harness.output(), harness.PlainIds()) << "seed " << seed;
    const Uses uses = UsesOf(harness);
    EXPECT_EQ(uses.hits, harness.draft.taken);
    EXPECT_EQ(uses.late, 0);
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

// Each round is sent once: as a Step, or in the chained one before it.
TEST_P(PreparedText, IsTheTargetsOwnWhereTheTargetGoesOnByItself) {
  int chained = 0, misses = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    LoopHarness harness(PreparingRequest(GetParam(), seed));
    harness.draft.prepares = harness.target.chains = true;
    harness.Start();
    harness.Run();
    ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
    ASSERT_EQ(harness.output(), harness.PlainIds()) << "seed " << seed;
    const Uses uses = UsesOf(harness);
    EXPECT_EQ(harness.target.whole_prefixes, 1) << "nothing was sent again";
    EXPECT_EQ(harness.target.steps + uses.chained, static_cast<int>(harness.ending->counts.rounds));
    EXPECT_EQ(uses.hits + uses.chained, harness.draft.taken);
    EXPECT_EQ(uses.late, 0);
    chained += uses.chained;
    misses += uses.misses;
  }
  EXPECT_GT(chained, misses);
}

// Its ids and tokens are any, targets are lost, texts end early, and readers pause while the target
// goes on.
TEST_P(PreparedText, IsTheTargetsOwnWhateverHappensWhileTheTargetGoesOn) {
  int chained = 0, on = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    GenerationRequest request = PreparingRequest(GetParam(), seed);
    request.max_tokens = static_cast<uint32_t>(1 + seed);
    HarnessOptions options;
    options.loop.max_undelivered_tokens = 8;
    options.loop.max_prefix_tokens = 4 + seed % 3;
    LoopHarness harness(request, options);
    harness.draft.prepares = harness.target.chains = true;
    harness.reader.reads = seed % 3 > 0;
    uint32_t count = 0;
    harness.draft.on_prepared = [&](PreparedBlock& prepared) {
      ++count;
      if (seed % 4 == 1) prepared.block.id = base::BlockId{9};
      if (count % 5 == 0) prepared.block.tokens = {7, 7, 9999};
      return count % 7 != 0;
    };
    harness.target.on_step = [&](const VerifyStep&, VerifyReply&) {
      if (seed % 4 != 2 || harness.target.steps % 29 != 8) return FakeTarget::Do::kAnswer;
      harness.target.Disconnect();
      harness.target.Connect();
      return FakeTarget::Do::kDrop;
    };
    harness.Start();
    for (int i = 0; i < 1000 && !harness.ending.has_value(); ++i) {
      if (harness.DeliverOne()) continue;
      harness.Read();
      if (harness.draft.queue.empty() && harness.target.queue.empty()) harness.FireNextTimer();
    }
    ASSERT_TRUE(harness.ending.has_value()) << "seed " << seed;
    ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
    ASSERT_EQ(harness.output(), harness.PlainIds()) << "seed " << seed;
    chained += UsesOf(harness).chained;
    on += harness.target.chained_on;
  }
  EXPECT_GT(chained, 50);
  EXPECT_GT(on, chained) << "some were overruled";
}

// It would refuse the whole chained Step for one such token.
TEST_P(PreparedText, TheTargetIsSentNoOutcomeThatItsVocabularyLacks) {
  LoopHarness harness(PreparingRequest(GetParam(), 1));
  harness.draft.prepares = harness.target.chains = true;
  uint32_t count = 0, lacking = 0;
  harness.draft.on_prepared = [&](PreparedBlock& prepared) {
    if (++count % 3 != 0) return true;
    prepared.next_token = harness.options.vocabulary_size + ++lacking;
    return true;
  };
  harness.Start();
  harness.Run();
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_GT(lacking, 3u);
  EXPECT_GT(UsesOf(harness).chained, 0);
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
  EXPECT_EQ(UsesOf(harness).hits, 0);
  EXPECT_GT(UsesOf(harness).late, 5);
}

// Those are what a draft sends unasked: for the outcome of a tree, and of a request that prepares
// none.
TEST(PreparedBlocks, ThatAreNotWantedAreNotSentToTheTarget) {
  for (const bool tree : {false, true}) {
    GenerationRequest request = PreparingRequest(0, 1, /*prepare=*/0);
    if (tree) {
      request.prepare = 16;
      request.draft_nodes = 8;
    }
    LoopHarness harness(request);
    harness.target.chains = true;
    harness.target.max_nodes = harness.draft.max_nodes = 8;
    int unasked = 0;
    harness.target.on_step = [&](const VerifyStep& step, VerifyReply&) {
      if (step.block.empty()) return FakeTarget::Do::kAnswer;
      EXPECT_EQ(step.block.is_chain(), !tree);
      PreparedBlock prepared{step.block.id, 0, 1, {}};
      prepared.block.id = base::BlockId{1000};
      prepared.block.tokens = {1, 2};
      harness.draft.queue.push_back([&harness, prepared] {
        harness.loop->OnPrepared(harness.draft.opened().attempt, {prepared});
      });
      ++unasked;
      return FakeTarget::Do::kAnswer;
    };
    harness.Start();
    harness.Run();
    EXPECT_EQ(harness.output(), harness.PlainIds());
    EXPECT_GT(unasked, 5);
    EXPECT_EQ(harness.target.chained_steps, 0) << (tree ? "tree" : "prepare 0");
  }
}

// A miss is told with what had been prepared, not with what it asks for.
TEST(PreparedBlocks, AreRecordedAsTheyWereAskedFor) {
  int shorter = 0;  // misses at the end of a text, whose blocks have less room than those before
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::vector<RoundRecord> records;
    HarnessOptions options;
    options.watch = [&](const testing::FakeClock&) {
      return std::make_unique<RoundRecorder>(records);
    };
    LoopHarness harness(PreparingRequest(1, seed, /*prepare=*/1), options);
    harness.draft.prepares = true;
    harness.Start();
    harness.Run();
    uint32_t asked = 0;
    for (const RoundRecord& round : records) {
      if (round.prepared != PreparedUse::kNone) {
        EXPECT_EQ(round.prepared_tokens, asked);
        shorter += round.prepared == PreparedUse::kMiss && round.asked_tokens < asked ? 1 : 0;
      }
      if (!WasPrepared(round.prepared)) asked = round.asked_tokens;
    }
  }
  EXPECT_GT(shorter, 5);
}

// The ids of another draft's blocks begin anew, so its first one may have that of a chained block.
TEST(PreparedBlocks, OfALostDraftAreNotTakenForThoseOfTheNext) {
  HarnessOptions options;
  options.draft_noise = 0;  // every block stands
  LoopHarness harness(PreparingRequest(0, 1), options);
  harness.draft.prepares = harness.target.chains = true;
  harness.draft.others = 1;
  const std::vector<uint32_t> own = harness.PlainIds();
  harness.draft.on_prepared = [&](PreparedBlock& prepared) {
    const bool comes_true = prepared.node == 3 && prepared.next_token == own[4];
    if (harness.draft.opens > 1 || !comes_true) return false;
    prepared.block.id = base::BlockId{9};
    prepared.block.Truncate(1);
    return true;
  };
  harness.target.on_step = [&](const VerifyStep& step, VerifyReply&) {
    if (harness.draft.opens == 1 && !step.block.empty()) harness.draft.Break();
    harness.draft.ids_after = base::BlockId{8};
    return FakeTarget::Do::kAnswer;
  };
  harness.Start();
  harness.Run();
  EXPECT_EQ(harness.output(), own);
  EXPECT_EQ(harness.draft.opens, 2);
  EXPECT_EQ(harness.target.chained_on, 1) << "the first draft's";
  EXPECT_EQ(UsesOf(harness).chained, 0);
  EXPECT_EQ(harness.target.steps, static_cast<int>(harness.ending->counts.rounds));
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
    EXPECT_EQ(UsesOf(harness).hits, 0);
    EXPECT_EQ(UsesOf(harness).late, 0) << "none is waited for";
  }
}

}  // namespace
}  // namespace tandem::orchestrator
