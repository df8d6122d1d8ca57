#include "orchestrator/draft/draft_client.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/draft/draft_batches.h"

namespace tandem::orchestrator::draft_client_test {
namespace {

// The transport's half of a stream; the test speaks for the draft.
struct FakeStream final : transport::Sink<internal::v1::DraftRequest> {
  bool Send(internal::v1::DraftRequest message) override {
    sent.push_back(std::move(message));
    if (writes) handler->OnWritten(0);
    return true;
  }
  void Close(absl::Status status) override { closed = std::move(status); }
  size_t queued() const override { return 0; }

  void Welcome(uint32_t context_length = 0, bool prepares = false) const {
    internal::v1::DraftReply reply;
    for (const char* drafter : {"model", "n-grams"}) reply.mutable_welcome()->add_drafters(drafter);
    if (prepares) reply.mutable_welcome()->add_preparing_drafters("model");
    reply.mutable_welcome()->set_model_id("small");
    reply.mutable_welcome()->mutable_limits()->set_max_draft_tokens(6);
    reply.mutable_welcome()->mutable_limits()->set_context_length(context_length);
    handler->OnMessage(reply);
  }
  void Block(uint64_t round, std::vector<uint64_t> sequences = {1}) const {
    internal::v1::DraftReply reply;
    for (uint64_t sequence : sequences) {
      internal::v1::Block& block = *(reply.has_block() ? reply.add_next() : reply.mutable_block());
      block.set_sequence(sequence);
      block.set_round(round);
      block.set_status(internal::v1::STATUS_OK);
    }
    handler->OnMessage(reply);
  }

  std::unique_ptr<transport::StreamHandler<internal::v1::DraftReply>> handler;
  std::vector<internal::v1::DraftRequest> sent;
  bool writes = true;  // else the test says when what was sent is written
  std::optional<absl::Status> closed;
};

struct Recorder final : DraftEvents {
  void OnDraftOpened(base::DraftAttempt attempt, DraftLimits limits) override {
    opened.push_back(base::Number(attempt));
    last_limits = limits;
  }
  void OnBlock(base::DraftAttempt attempt, DraftReplyBlock block) override {
    blocks.emplace_back(base::Number(attempt), block.round);
  }
  void OnPrepared(base::DraftAttempt, std::vector<PreparedBlock> blocks) override {
    prepared.push_back(std::move(blocks));
  }
  void OnDraftLost(base::DraftAttempt attempt, DraftLoss loss, std::string reason) override {
    lost.emplace_back(base::Number(attempt), loss);
    last_reason = std::move(reason);
  }
  std::vector<uint64_t> opened;
  std::vector<std::pair<uint64_t, uint64_t>> blocks;
  std::vector<std::vector<PreparedBlock>> prepared;  // a message each
  std::vector<std::pair<uint64_t, DraftLoss>> lost;
  std::string last_reason;
  DraftLimits last_limits;
};

struct Fixture {
  Fixture() {
    internal::v1::Hello hello;
    hello.set_client_id("front");
    hello.set_incarnation(100);
    client = std::make_shared<DraftClient>(
        PeerAddress{"10.0.0.1:1", "d:1"}, hello,
        [this](std::unique_ptr<transport::StreamHandler<internal::v1::DraftReply>> handler) {
          streams.push_back(std::make_shared<FakeStream>());
          streams.back()->handler = std::move(handler);
          return streams.back();
        },
        [this](const v1::Welcome&, std::function<void(absl::Status)> done) {
          if (!check_later) return done(fits);
          pending_check = std::move(done);
        });
    session = client->NewSession(events);
  }
  FakeStream& Open(uint64_t attempt) { return Open(*session, attempt); }
  FakeStream& Open(DraftSession& of, uint64_t attempt) {
    DraftOpen open;
    open.attempt = base::DraftAttempt{attempt};
    open.settings.max_length = 50;
    open.prefix.tokens = {1, 2, 3};
    of.Open(open);
    return *streams.back();
  }
  void Advance(uint64_t round, uint32_t outcomes = 0) { Advance(*session, round, outcomes); }
  static void Advance(DraftSession& of, uint64_t round, uint32_t outcomes = 0) {
    DraftAdvance advance;
    advance.round = round;
    advance.max_draft_tokens = 4;
    advance.max_outcomes = outcomes;
    of.Advance(advance);
  }

  absl::Status fits;
  bool check_later = false;
  std::function<void(absl::Status)> pending_check;
  std::vector<std::shared_ptr<FakeStream>> streams;
  std::shared_ptr<Recorder> events = std::make_shared<Recorder>();
  std::shared_ptr<DraftClient> client;
  std::unique_ptr<DraftSession> session;
};

using Lost = std::vector<std::pair<uint64_t, DraftLoss>>;

TEST(DraftClient, OnlyADraftThatPreparesHearsWhatWasSubmitted) {
  for (const uint32_t outcomes : {0, 4}) {
    Fixture f;
    FakeStream& stream = f.Open(1);
    stream.Welcome(20, /*prepares=*/true);
    f.Advance(1, outcomes);
    stream.Block(1);
    const size_t before = stream.sent.size();
    f.session->Submitted(base::BlockId{5}, 3);
    ASSERT_EQ(stream.sent.size(), before + (outcomes > 0 ? 1 : 0));
    if (outcomes == 0) continue;
    EXPECT_EQ(stream.sent.back().submitted().block_id().value(), 5u);
    EXPECT_EQ(stream.sent.back().submitted().nodes(), 3u);
  }
}

TEST(DraftClient, WhetherADraftPreparesIsADraftersMatter) {
  for (const bool prepares : {false, true}) {
    for (const char* drafter : {"", "model", "n-grams"}) {
      Fixture f;
      DraftOpen open;
      open.attempt = base::DraftAttempt{1};
      open.drafter = drafter;
      f.session->Open(open);
      f.streams.back()->Welcome(20, prepares);
      ASSERT_EQ(f.events->opened, std::vector<uint64_t>{1});
      EXPECT_EQ(f.events->last_limits.prepares, prepares && drafter != std::string("n-grams"))
          << drafter;
    }
  }
}

TEST(DraftClient, BlocksPreparedForASequenceComeTogether) {
  Fixture f;
  auto others = std::make_shared<Recorder>();
  auto other = f.client->NewSession(others);
  FakeStream& stream = f.Open(1);
  f.Open(*other, 2);
  stream.Welcome(20, /*prepares=*/true);
  f.Advance(1, /*outcomes=*/4);
  internal::v1::DraftReply reply;
  for (const uint64_t sequence : {1, 1, 1, 2, 1}) {
    const bool answers = !reply.has_block();
    internal::v1::Block& block = *(answers ? reply.mutable_block() : reply.add_next());
    block.set_sequence(sequence);
    block.set_round(1);
    block.set_status(internal::v1::STATUS_OK);
    block.set_final(answers);
    if (!answers) block.mutable_assumes()->set_node(1);
  }
  stream.handler->OnMessage(reply);
  EXPECT_EQ(f.events->blocks.size(), 1u);
  ASSERT_EQ(f.events->prepared.size(), 2u);
  EXPECT_EQ(f.events->prepared[0].size(), 2u);
  EXPECT_EQ(f.events->prepared[1].size(), 1u);
  ASSERT_EQ(others->prepared.size(), 1u);
  EXPECT_EQ(others->prepared[0][0].node, 1u);
}

TEST(DraftClient, AllRequestsShareAStreamAndEachHearsOfItsOwn) {
  Fixture f;
  auto others = std::make_shared<Recorder>();
  auto other = f.client->NewSession(others);
  FakeStream& stream = f.Open(1);
  f.Open(*other, 7);
  ASSERT_EQ(f.streams.size(), 1u);
  stream.Welcome();
  EXPECT_EQ(f.events->opened, std::vector<uint64_t>{1});
  EXPECT_EQ(others->opened, std::vector<uint64_t>{7});
  f.Advance(1);
  f.Advance(*other, 1);
  stream.Block(1, {2, 1, 9});
  EXPECT_EQ(f.events->blocks, (std::vector<std::pair<uint64_t, uint64_t>>{{1, 1}}));
  EXPECT_EQ(others->blocks, (std::vector<std::pair<uint64_t, uint64_t>>{{7, 1}}));
  other.reset();
  EXPECT_EQ(stream.sent.back().close().sequence(), 2u);
  EXPECT_EQ(f.client->sequences(), 1u);
  f.Advance(2);
  stream.handler->OnDone(absl::UnavailableError("cut"));
  EXPECT_EQ(f.events->lost, (Lost{{1, DraftLoss::kLost}}));
  EXPECT_TRUE(others->lost.empty());
}

TEST(DraftClient, WhatGetsReadyDuringAWriteGoesOutTogether) {
  Fixture f;
  FakeStream& stream = f.Open(1);
  std::vector<std::unique_ptr<DraftSession>> others;
  for (int i = 0; i < 3; ++i) f.Open(*others.emplace_back(f.client->NewSession(f.events)), 2);
  stream.writes = false;
  stream.Welcome(0, /*prepares=*/true);
  ASSERT_EQ(stream.sent.size(), 2u) << "four prompts in a message";
  EXPECT_EQ(stream.sent[1].next_size(), 3);
  f.Advance(1, /*outcomes=*/4);
  f.session->Submitted(base::BlockId{1}, 1);
  for (const auto& other : others) f.Advance(*other, 1);
  others.pop_back();
  ASSERT_EQ(stream.sent.size(), 2u);
  stream.handler->OnWritten(0);
  ASSERT_EQ(stream.sent.size(), 3u);
  const internal::v1::DraftRequest& message = stream.sent[2];
  ASSERT_EQ(message.next_size(), 4);
  EXPECT_EQ(message.advance().sequence(), 1u);
  EXPECT_EQ(message.next(0).submitted().sequence(), 1u);
  EXPECT_EQ(message.next(1).advance().sequence(), 2u);
  EXPECT_EQ(message.next(2).advance().sequence(), 3u);
  EXPECT_EQ(message.next(3).close().sequence(), 4u) << "and its Advance was not sent";
}

// Who waits there goes on waiting; who comes gets another stream, one for all.
TEST(DraftClient, ASilentStreamIsRenewedOnce) {
  Fixture f;
  FakeStream& silent = f.Open(1);
  auto patient = f.client->NewSession(f.events);
  f.Open(*patient, 2);
  silent.Welcome();
  f.Advance(1);
  f.Advance(*patient, 1);
  f.session->GiveUp(DraftLoss::kLost, absl::ZeroDuration());
  FakeStream& fresh = f.Open(3);
  EXPECT_EQ(fresh.sent[0].hello().incarnation(), 102u);
  auto third = f.client->NewSession(f.events);
  f.Open(*third, 4);
  ASSERT_EQ(f.streams.size(), 2u);
  EXPECT_FALSE(silent.closed.has_value());
  silent.Block(1, {1, 2});
  EXPECT_EQ(f.events->blocks, (std::vector<std::pair<uint64_t, uint64_t>>{{2, 1}}));
  f.Advance(*patient, 2);
  patient->GiveUp(DraftLoss::kLost, absl::ZeroDuration());
  ASSERT_TRUE(silent.closed.has_value()) << "nobody waits there any more";
  EXPECT_FALSE(silent.closed->ok()) << "it may hang, and is not waited for";
  f.Open(*patient, 5);
  EXPECT_EQ(f.streams.size(), 2u);
}

// That one sequence gets no answer says nothing of a stream that brings others theirs.
TEST(DraftClient, AStreamThatBringsBlocksIsNotSilent) {
  Fixture f;
  FakeStream& stream = f.Open(1);
  auto other = f.client->NewSession(f.events);
  f.Open(*other, 2);
  stream.Welcome();
  f.Advance(1);
  f.Advance(*other, 1);
  stream.Block(1, {2});
  f.session->GiveUp(DraftLoss::kLost, absl::ZeroDuration());
  f.Open(3);
  EXPECT_EQ(f.streams.size(), 1u);
  f.client.reset();
  f.session.reset();
  EXPECT_FALSE(stream.closed.has_value());
  other.reset();
  EXPECT_TRUE(stream.closed.has_value()) << "with its client";
}

TEST(DraftClient, ADraftThatReadsNothingIsLostAtABound) {
  Fixture f;
  FakeStream& stream = f.Open(1);
  stream.writes = false;
  stream.Welcome(0, /*prepares=*/true);
  f.Advance(1, /*outcomes=*/4);
  for (int i = 1; i < 65536; ++i) f.session->Submitted(base::BlockId{1}, 1);
  EXPECT_TRUE(f.events->lost.empty());
  f.session->Submitted(base::BlockId{1}, 1);
  EXPECT_EQ(f.events->lost, (Lost{{1, DraftLoss::kLost}}));
  EXPECT_NE(f.events->last_reason.find("reads too slowly: 65536"), std::string::npos);
  EXPECT_TRUE(stream.closed.has_value());
}

// A prompt that has no room beside what waits goes alone, and then all else is first again.
TEST(DraftClient, PromptsAndRoundsTakeTurns) {
  DraftBatches batches;
  DraftOpen open;
  open.prefix.tokens = std::vector<uint32_t>(1000, 100'000);
  for (uint64_t sequence : {1, 2, 3}) batches.Open(base::SequenceId{sequence}, open);
  std::vector<base::SequenceId> opened;
  std::vector<bool> opens;
  for (int i = 0; i < 5; ++i) {
    batches.Add(base::SequenceId{4}, {});
    opens.push_back(batches.Take(3000, opened).has_open());
  }
  EXPECT_EQ(opens, (std::vector<bool>{false, true, false, true, false}));
  EXPECT_EQ(batches.size(), 1u);
  batches.Close(base::SequenceId{3});
  EXPECT_EQ(batches.size(), 0u) << "the draft never heard of it";
  EXPECT_EQ(opened, (std::vector<base::SequenceId>{base::SequenceId{1}, base::SequenceId{2}}));
}

TEST(DraftClient, GreetsThenOpensThenDrafts) {
  Fixture f;
  FakeStream& stream = f.Open(1);
  ASSERT_EQ(stream.sent.size(), 1u) << "no prompt before the Welcome";
  EXPECT_EQ(stream.sent[0].hello().incarnation(), 101u);
  stream.Welcome(/*max_length=*/20);
  ASSERT_EQ(stream.sent.size(), 2u);
  EXPECT_EQ(stream.sent[1].open().options().max_length(), 20u) << "the draft's shorter context";
  EXPECT_EQ(f.events->opened, std::vector<uint64_t>{1});
  EXPECT_EQ(f.events->last_limits.max_draft_tokens, 6u);
  EXPECT_EQ(f.client->model_id(), "small");
  f.Advance(7);
  ASSERT_EQ(stream.sent.size(), 3u);
  EXPECT_EQ(stream.sent[2].advance().round(), 7u);
  stream.Block(7);
  EXPECT_EQ(f.events->blocks, (std::vector<std::pair<uint64_t, uint64_t>>{{1, 7}}));
}

TEST(DraftClient, ALostStreamIsToldOnceAndTheNextOpensAnother) {
  Fixture f;
  FakeStream& first = f.Open(1);
  first.Welcome();
  f.Advance(1);
  first.handler->OnDone(absl::UnavailableError("cut"));
  EXPECT_EQ(f.events->lost, (Lost{{1, DraftLoss::kLost}}));
  EXPECT_NE(f.events->last_reason.find("cut"), std::string::npos);
  first.Block(1);
  EXPECT_TRUE(f.events->blocks.empty()) << "nothing comes after the loss";
  FakeStream& second = f.Open(2);
  EXPECT_EQ(second.sent[0].hello().incarnation(), 102u);
  EXPECT_EQ(second.sent[0].hello().client_id(), first.sent[0].hello().client_id());
}

TEST(DraftClient, ADraftThatDoesNotFitIsRefusedAndSeesNoPrompt) {
  Fixture f;
  f.fits = absl::FailedPreconditionError("another tokenizer");
  FakeStream& stream = f.Open(1);
  stream.Welcome();
  EXPECT_EQ(f.events->lost, (Lost{{1, DraftLoss::kRefused}}));
  EXPECT_NE(f.events->last_reason.find("another tokenizer"), std::string::npos);
  EXPECT_EQ(stream.sent.size(), 1u);
  ASSERT_TRUE(stream.closed.has_value());
  stream.handler->OnDone(absl::CancelledError(""));
  EXPECT_EQ(f.events->lost.size(), 1u);
}

TEST(DraftClient, TheDraftsOwnRefusalAndAnUnknownMessage) {
  Fixture f;
  f.Open(1).handler->OnDone(absl::FailedPreconditionError("revision"));
  f.Open(2).handler->OnMessage(internal::v1::DraftReply());
  EXPECT_EQ(f.events->lost, (Lost{{1, DraftLoss::kRefused}, {2, DraftLoss::kRefused}}));
}

TEST(DraftClient, ALateBlockOfAnAbandonedAttemptFindsNobody) {
  Fixture f;
  FakeStream& stream = f.Open(1);
  stream.Welcome();
  f.Advance(1);
  f.Open(2);
  ASSERT_EQ(stream.sent.size(), 5u);
  EXPECT_EQ(stream.sent[3].close().sequence(), 1u);
  EXPECT_EQ(stream.sent[4].open().sequence(), 2u);
  stream.Block(1);
  EXPECT_TRUE(f.events->blocks.empty());
  EXPECT_TRUE(f.events->lost.empty());
  EXPECT_FALSE(stream.closed.has_value());
}

TEST(DraftClient, ACheckThatEndsAfterTheRequestDoesNothing) {
  Fixture f;
  f.check_later = true;
  FakeStream& stream = f.Open(1);
  stream.Welcome();
  f.session.reset();
  f.pending_check(absl::OkStatus());
  EXPECT_TRUE(f.events->opened.empty());
  EXPECT_EQ(stream.sent.size(), 1u);
}

}  // namespace
}  // namespace tandem::orchestrator::draft_client_test
