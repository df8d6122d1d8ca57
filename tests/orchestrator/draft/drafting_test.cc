// What a draft may send one day and is not served yet: refused by name, and nothing that counts
// against the draft.
#include "orchestrator/draft/drafting.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/draft/draft_wire.h"
#include "tests/orchestrator/draft/draft_services.h"
#include "tests/orchestrator/harness/loop_harness.h"
#include "tests/support/log_lines.h"

namespace tandem::orchestrator {
namespace {

internal::v1::Block ChainOf(uint64_t round, uint32_t tokens) {
  internal::v1::Block block;
  block.set_round(round);
  block.set_status(internal::v1::STATUS_OK);
  block.set_final(true);
  block.mutable_block_id()->set_value(round);
  for (uint32_t i = 0; i < tokens; ++i) block.add_tokens(i);
  return block;
}

// Two children of the root, and one of the first.
internal::v1::Block TreeOf(uint64_t round) {
  internal::v1::Block block = ChainOf(round, 3);
  for (uint32_t parent : {0, 0, 1}) block.add_parents(parent);
  return block;
}

TEST(Drafting, ATreeCostsItsRoundAndTheTextIsTheTargetsOwn) {
  testing::LogRecorder log;
  GenerationRequest request = SmallRequest();
  request.max_tokens = 200;
  LoopHarness harness(request);
  int trees = 0;
  harness.draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock& reply) {
    if (advance.round % 3 == 0) {
      reply = FromWire(TreeOf(advance.round));
      ++trees;
    }
    return FakeDraft::Do::kAnswer;
  };
  harness.Start();
  harness.Run();
  ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  ASSERT_GT(trees, 3);
  EXPECT_EQ(harness.plain_rounds(PlainCause::kDraftInvalid), static_cast<uint32_t>(trees));
  EXPECT_EQ(harness.plain_rounds(PlainCause::kDraftLost), 0u);
  EXPECT_EQ(harness.draft.opens, 1) << "the draft stays";
  EXPECT_EQ(harness.ending->counts.draft_reconnections, 0u);
  EXPECT_EQ(harness.draft.advances, harness.draft.submitted + trees) << "the others went on";
  EXPECT_EQ(harness.output(), harness.PlainIds());
  const std::vector<testing::LogLine> lines = log.Of("block_unserved");
  ASSERT_EQ(lines.size(), 1u) << "the first of a text is enough";
  EXPECT_EQ(lines[0].fields.at("id"), "test");
  EXPECT_EQ(lines[0].fields.at("message"),
            "the draft sent a tree of 3 draft tokens, and a whole chain was asked for");
}

TEST(Drafting, AStaleDraftIsToldTheWholeTextAgain) {
  LoopHarness harness(SmallRequest());
  std::vector<uint32_t> keeps;
  harness.draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock& reply) {
    keeps.push_back(advance.prefix.keep);
    if (advance.round == 3) {
      reply = {};
      reply.round = advance.round;
      reply.status = DraftReplyBlock::Status::kStale;
    }
    return FakeDraft::Do::kAnswer;
  };
  harness.Start();
  harness.Run();
  ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  EXPECT_EQ(harness.output(), harness.PlainIds());
  ASSERT_GT(keeps.size(), 4u);
  EXPECT_GT(keeps[2], 0u);
  EXPECT_EQ(keeps[3], 0u);
  EXPECT_GT(keeps[4], 0u);
}

// A draft service on the wire, in a pool, and one request's drafting over it.
class DraftingOverAPool : public ::testing::Test {
 protected:
  struct ToDrafting final : DraftEvents {
    void OnDraftOpened(base::DraftAttempt attempt, DraftLimits limits) override {
      drafting->OnOpened(attempt, limits);
    }
    void OnBlock(base::DraftAttempt attempt, DraftReplyBlock block) override {
      drafted = drafting->OnBlock(attempt, std::move(block));
    }
    void OnPrepared(base::DraftAttempt attempt, std::vector<PreparedBlock> prepared) override {
      drafting->OnPrepared(attempt, std::move(prepared));
    }
    void OnDraftLost(base::DraftAttempt attempt, DraftLoss loss, std::string) override {
      drafted = drafting->OnLost(attempt, loss);
    }
    Drafting* drafting = nullptr;
    std::optional<Drafted> drafted;
  };

  explicit DraftingOverAPool(uint32_t draft_nodes = 0)
      : pool_(1),
        session_(pool_.pool->NewSession(events_)),
        request_(RequestOf(draft_nodes)),
        committed_(request_.prompt()),
        timers_(pool_.clock),
        drafting_(request_, options_, committed_, session_.get(), timers_, pool_.clock, observer_) {
    events_->drafting = &drafting_;
    drafting_.Open();
    if (draft_nodes == 0) {
      pool_.services[0].Welcome("small");
    } else {
      pool_.services[0].WelcomeWithTrees(6);
    }
  }
  static GenerationRequest RequestOf(uint32_t draft_nodes) {
    GenerationRequest request = SmallRequest();
    request.draft_nodes = draft_nodes;
    return request;
  }

  // What the round gets when the draft answers with `block`.
  Drafted AskAndAnswer(internal::v1::Block block) {
    EXPECT_FALSE(drafting_.Ask({4, request_->draft_nodes}, absl::Milliseconds(40)).has_value());
    events_->drafted.reset();
    internal::v1::DraftReply reply;
    block.set_sequence(pool_.services[0].streams.back()->last.advance().sequence());
    *reply.mutable_block() = std::move(block);
    pool_.services[0].streams.back()->handler->OnMessage(reply);
    EXPECT_TRUE(events_->drafted.has_value());
    return events_->drafted.value_or(Drafted());
  }
  v1::Peer Peer() const { return pool_.pool->Peers().at(0); }

  Fixture pool_;
  const std::shared_ptr<ToDrafting> events_ = std::make_shared<ToDrafting>();
  std::unique_ptr<DraftSession> session_;
  const SampleRequest request_;
  const LoopOptions options_;
  CommittedTokens committed_;
  FakeLoopTimers timers_;
  RoundObserver observer_;
  Drafting drafting_;
};

TEST_F(DraftingOverAPool, WhatIsNotServedYetIsNoFaultOfTheDraft) {
  internal::v1::Block prepared = ChainOf(2, 3);
  prepared.mutable_assumes();
  internal::v1::Block part = ChainOf(3, 3);
  part.set_final(false);
  for (const internal::v1::Block& block : {TreeOf(1), prepared, part}) {
    const Drafted drafted = AskAndAnswer(block);
    EXPECT_EQ(drafted.cause, PlainCause::kDraftInvalid);
    EXPECT_TRUE(drafted.block.tokens.empty());
    EXPECT_EQ(Peer().ejections(), 0u);
    EXPECT_FALSE(Peer().ejected());
    EXPECT_TRUE(Peer().ready()) << Peer().problem();
    EXPECT_FALSE(timers_.is_set(LoopTimer::kDraftReopen));
  }
  EXPECT_EQ(pool_.services[0].streams.size(), 1u) << "never opened anew";
  const Drafted chain = AskAndAnswer(ChainOf(4, 3));
  EXPECT_FALSE(chain.cause.has_value());
  EXPECT_EQ(chain.block.tokens.size(), 3u);
}

// What the test above measures: a block that breaks the rules does count.
TEST_F(DraftingOverAPool, NegativeControlParentsThatAreNoTreeAreAFault) {
  internal::v1::Block broken = ChainOf(1, 3);
  for (uint32_t parent : {0, 2, 1}) broken.add_parents(parent);
  const Drafted drafted = AskAndAnswer(broken);
  EXPECT_EQ(drafted.cause, PlainCause::kDraftInvalid);
  EXPECT_EQ(Peer().ejections(), 1u);
  EXPECT_TRUE(timers_.is_set(LoopTimer::kDraftReopen));
}

// ---- trees that were asked for ----

class TreesOverAPool : public DraftingOverAPool {
 protected:
  TreesOverAPool() : DraftingOverAPool(8) {}

  static internal::v1::Block Block(uint64_t round, const std::vector<uint32_t>& tokens,
                                   const std::vector<uint32_t>& parents) {
    internal::v1::Block block = ChainOf(round, 0);
    block.mutable_tokens()->Add(tokens.begin(), tokens.end());
    block.mutable_parents()->Add(parents.begin(), parents.end());
    return block;
  }
};

TEST_F(TreesOverAPool, TreesAndChainsAreTaken) {
  const Drafted tree = AskAndAnswer(TreeOf(1));
  EXPECT_FALSE(tree.cause.has_value());
  EXPECT_EQ(tree.block.parents, (std::vector<uint32_t>{0, 0, 1}));
  const Drafted chain = AskAndAnswer(ChainOf(2, 4));
  EXPECT_FALSE(chain.cause.has_value());
  EXPECT_EQ(chain.block.size(), 4u);
  // As many as the draft's limit allows, and as deep as was asked for.
  const Drafted whole = AskAndAnswer(Block(3, {1, 2, 3, 4, 1, 2}, {0, 1, 2, 3, 1, 2}));
  EXPECT_FALSE(whole.cause.has_value());
  EXPECT_EQ(Peer().ejections(), 0u);
}

// A draft that does not know the field would refuse the message.
TEST_F(DraftingOverAPool, OnlyADraftThatOffersItHearsOfConfidence) {
  EXPECT_FALSE(drafting_.Ask({.min_confidence = 0.5}, absl::Milliseconds(40)).has_value());
  EXPECT_EQ(pool_.services[0].streams.back()->last.advance().shape().min_confidence(), 0);
}

TEST_F(TreesOverAPool, ADraftThatOffersItHearsOfConfidence) {
  EXPECT_FALSE(drafting_.Ask({.min_confidence = 0.5}, absl::Milliseconds(40)).has_value());
  EXPECT_EQ(pool_.services[0].streams.back()->last.advance().shape().min_confidence(), 0.5);
}

TEST_F(TreesOverAPool, TooManyNodesAreAFault) {
  EXPECT_EQ(AskAndAnswer(Block(1, {1, 2, 3, 4, 5, 6, 7}, {0, 0, 0, 0, 0, 0, 0})).cause,
            PlainCause::kDraftInvalid);
  EXPECT_EQ(Peer().ejections(), 1u);
}

TEST_F(TreesOverAPool, TooDeepIsAFault) {
  EXPECT_EQ(AskAndAnswer(Block(1, {1, 2, 3, 4, 5, 6}, {0, 1, 2, 3, 4, 0})).cause,
            PlainCause::kDraftInvalid);
  EXPECT_EQ(Peer().ejections(), 1u);
}

TEST_F(TreesOverAPool, EqualSiblingsAreAFault) {
  EXPECT_EQ(AskAndAnswer(Block(1, {1, 2, 1}, {0, 0, 0})).cause, PlainCause::kDraftInvalid);
  EXPECT_EQ(Peer().ejections(), 1u);
}

TEST_F(TreesOverAPool, AQIsAFault) {
  internal::v1::Block block = TreeOf(1);
  for (int i = 0; i < 3; ++i) block.add_q();
  EXPECT_EQ(AskAndAnswer(block).cause, PlainCause::kDraftInvalid);
  EXPECT_EQ(Peer().ejections(), 1u);
}

TEST_F(TreesOverAPool, TooFewParentsAreAFault) {
  EXPECT_EQ(AskAndAnswer(Block(1, {1, 2, 3}, {0, 0})).cause, PlainCause::kDraftInvalid);
  EXPECT_EQ(Peer().ejections(), 1u);
}

}  // namespace
}  // namespace tandem::orchestrator
