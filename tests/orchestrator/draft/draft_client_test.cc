#include "orchestrator/draft/draft_client.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::orchestrator::draft_client_test {
namespace {

// The transport's half of a stream; the test speaks for the draft.
struct FakeStream final : transport::Sink<internal::v1::DraftRequest> {
  bool Send(internal::v1::DraftRequest message) override {
    sent.push_back(std::move(message));
    return true;
  }
  void Close(absl::Status status) override { closed = std::move(status); }
  size_t queued() const override { return 0; }

  void Welcome(uint32_t context_length = 0, const std::string& feature = "") const {
    internal::v1::DraftReply reply;
    if (!feature.empty()) reply.mutable_welcome()->add_features(feature);
    reply.mutable_welcome()->set_model_id("small");
    reply.mutable_welcome()->mutable_limits()->set_max_draft_tokens(6);
    reply.mutable_welcome()->mutable_limits()->set_context_length(context_length);
    handler->OnMessage(reply);
  }
  void Block(uint64_t round) const {
    internal::v1::DraftReply reply;
    reply.mutable_block()->set_sequence(1);
    reply.mutable_block()->set_round(round);
    reply.mutable_block()->set_status(internal::v1::STATUS_OK);
    handler->OnMessage(reply);
  }

  std::unique_ptr<transport::StreamHandler<internal::v1::DraftReply>> handler;
  std::vector<internal::v1::DraftRequest> sent;
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
  void OnPrepared(base::DraftAttempt, PreparedBlock block) override {
    prepared.push_back(std::move(block));
  }
  void OnDraftLost(base::DraftAttempt attempt, DraftLoss loss, std::string reason) override {
    lost.emplace_back(base::Number(attempt), loss);
    last_reason = std::move(reason);
  }
  std::vector<uint64_t> opened;
  std::vector<std::pair<uint64_t, uint64_t>> blocks;
  std::vector<PreparedBlock> prepared;
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
  FakeStream& Open(uint64_t attempt, uint32_t max_length = 50) {
    DraftOpen open;
    open.attempt = base::DraftAttempt{attempt};
    open.settings.max_length = max_length;
    open.prefix.tokens = {1, 2, 3};
    session->Open(open);
    return *streams.back();
  }
  void Advance(uint64_t round) {
    DraftAdvance advance;
    advance.round = round;
    advance.max_draft_tokens = 4;
    session->Advance(advance);
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

TEST(DraftClient, OnlyADraftThatBuildsOnItHearsWhatWasSubmitted) {
  for (bool offers : {false, true}) {
    Fixture f;
    FakeStream& stream = f.Open(1);
    stream.Welcome(20, offers ? "outcomes" : "something-else");
    f.Advance(1);
    stream.Block(1);
    const size_t before = stream.sent.size();
    f.session->Submitted(base::BlockId{5}, 3);
    ASSERT_EQ(stream.sent.size(), before + (offers ? 1 : 0));
    if (!offers) continue;
    EXPECT_EQ(stream.sent.back().submitted().block_id().value(), 5u);
    EXPECT_EQ(stream.sent.back().submitted().nodes(), 3u);
  }
}

// They share one client's part of the draft, and the incarnation rises with every stream.
TEST(DraftClient, AllRequestsAreOneClient) {
  Fixture f;
  f.Open(1);
  auto other = f.client->NewSession(f.events);
  DraftOpen open;
  open.attempt = base::DraftAttempt{1};
  other->Open(open);
  ASSERT_EQ(f.streams.size(), 2u);
  EXPECT_EQ(f.streams[0]->sent[0].hello().client_id(), "front");
  EXPECT_EQ(f.streams[1]->sent[0].hello().client_id(), "front");
  EXPECT_LT(f.streams[0]->sent[0].hello().incarnation(),
            f.streams[1]->sent[0].hello().incarnation());
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

TEST(DraftClient, ALostStreamIsToldOnceAndMayBeOpenedAgain) {
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
  FakeStream& first = f.Open(1);
  first.Welcome();
  f.Advance(1);
  FakeStream& second = f.Open(2);
  ASSERT_TRUE(first.closed.has_value());
  EXPECT_FALSE(first.closed->ok()) << "it owed a block, and is not waited for";
  second.Welcome();
  first.Block(1);
  first.handler->OnDone(absl::CancelledError(""));
  EXPECT_TRUE(f.events->blocks.empty());
  EXPECT_TRUE(f.events->lost.empty());
}

TEST(DraftClient, AnIdleDraftIsClosedInOrder) {
  Fixture f;
  FakeStream& stream = f.Open(1);
  stream.Welcome();
  f.Advance(1);
  stream.Block(1);
  f.session->Close();
  EXPECT_EQ(stream.sent.back().close().sequence(), 1u);
  ASSERT_TRUE(stream.closed.has_value());
  EXPECT_TRUE(stream.closed->ok()) << *stream.closed;
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
