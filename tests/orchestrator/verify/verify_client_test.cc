#include "orchestrator/verify/verify_client.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"

namespace tandem::orchestrator {
namespace {

struct FakeStream final : transport::Sink<v1::TargetRequest> {
  bool Send(v1::TargetRequest message) override {
    sent.push_back(std::move(message));
    return true;
  }
  void Close(absl::Status status) override {
    if (auto ended = std::exchange(handler, nullptr)) ended->OnDone(status);
  }
  size_t queued() const override { return 0; }

  std::unique_ptr<transport::StreamHandler<v1::TargetReply>> handler;
  std::vector<v1::TargetRequest> sent;
};

struct Recorder final : VerifyEvents {
  void OnVerifyReady() override {}
  void OnVerifyLost(base::Incarnation incarnation, std::string) override {
    lost.push_back(incarnation);
  }
  void OnVerdict(base::Incarnation, VerifyReply reply) override { rounds.push_back(reply.round); }
  std::vector<base::Incarnation> lost;
  std::vector<uint64_t> rounds;
};

struct Listener final : TargetListener {
  void OnTargetUp(const TargetInfo& target) override { up.push_back(target.incarnation); }
  void OnTargetDown(base::Incarnation incarnation) override { down.push_back(incarnation); }
  void OnTargetLoad(base::Incarnation, FreeRoom room) override {
    free.push_back(room.slots);
    free_tokens.push_back(room.tokens);
  }
  std::vector<base::Incarnation> up;
  std::vector<base::Incarnation> down;
  std::vector<uint32_t> free;
  std::vector<std::optional<int64_t>> free_tokens;
};

struct Fixture {
  Fixture() : timers(clock) {
    client = std::make_shared<VerifyClient>(
        VerifyClientOptions{.target = {"t:1", "t:1"}},
        [this](std::unique_ptr<transport::StreamHandler<v1::TargetReply>> handler) {
          auto stream = std::make_shared<FakeStream>();
          stream->handler = std::move(handler);
          streams.push_back(stream);
          return stream;
        },
        [](const v1::Welcome&, std::function<void(absl::Status)> done) { done(absl::OkStatus()); },
        timers, clock);
    client->Start(listener);
  }
  ~Fixture() { client->Stop(); }

  FakeStream& stream() { return *streams.back(); }
  void Welcome() {
    stream().handler->OnWritten(0);  // the Hello
    v1::TargetReply reply;
    reply.mutable_welcome()->set_vocabulary_size(8);
    stream().handler->OnMessage(reply);
  }
  static VerifyStep Step(uint64_t round) {
    VerifyStep step;
    step.round = round;
    return step;
  }

  testing::FakeClock clock;
  testing::FakeTimers timers;
  std::vector<std::shared_ptr<FakeStream>> streams;
  std::shared_ptr<Listener> listener = std::make_shared<Listener>();
  std::shared_ptr<VerifyClient> client;
};

TEST(VerifyClient, StepsThatGetReadyDuringAWriteGoTogether) {
  Fixture f;
  auto a_events = std::make_shared<Recorder>();
  auto b_events = std::make_shared<Recorder>();
  EXPECT_FALSE(f.client->Ready().ok());
  EXPECT_EQ(f.client->Open(base::Incarnation{1}, a_events), nullptr);
  f.Welcome();
  EXPECT_TRUE(f.client->Ready().ok());
  ASSERT_EQ(f.listener->up.size(), 1u);
  auto a = f.client->Open(f.listener->up[0], a_events);
  auto b = f.client->Open(f.listener->up[0], b_events);
  EXPECT_EQ(f.client->sequences(), 2u);
  a->Submit(Fixture::Step(1));
  ASSERT_EQ(f.stream().sent.size(), 2u) << "Hello, and the Step at once";
  a->Submit(Fixture::Step(2));
  b->Submit(Fixture::Step(3));
  ASSERT_EQ(f.stream().sent.size(), 2u);
  f.stream().handler->OnWritten(0);
  ASSERT_EQ(f.stream().sent.size(), 3u);
  const v1::Batch& batch = f.stream().sent[2].batch();
  ASSERT_EQ(batch.steps_size(), 2);
  EXPECT_NE(batch.steps(0).sequence(), batch.steps(1).sequence());

  v1::TargetReply reply;
  v1::Verdict& verdict = *reply.mutable_verdicts()->add_verdicts();
  verdict.set_sequence(batch.steps(1).sequence());
  verdict.set_round(3);
  verdict.set_status(v1::STATUS_OK);
  reply.mutable_verdicts()->add_verdicts()->set_sequence(12345);  // nobody's
  f.stream().handler->OnMessage(reply);
  EXPECT_TRUE(a_events->rounds.empty());
  EXPECT_EQ(b_events->rounds, std::vector<uint64_t>{3});
}

TEST(VerifyClient, ALostStreamIsToldAndOpenedAgainWithAHigherIncarnation) {
  Fixture f;
  auto events = std::make_shared<Recorder>();
  f.Welcome();
  auto link = f.client->Open(f.listener->up[0], events);
  f.stream().Close(absl::UnavailableError("cut"));
  EXPECT_EQ(events->lost, f.listener->up);
  EXPECT_EQ(f.listener->down, f.listener->up);
  EXPECT_FALSE(f.client->Ready().ok());
  EXPECT_FALSE(link->alive());
  link->Submit(Fixture::Step(1));  // goes nowhere
  f.timers.Advance(absl::Seconds(3));
  ASSERT_EQ(f.streams.size(), 2u);
  f.Welcome();
  ASSERT_EQ(f.listener->up.size(), 2u);
  EXPECT_GT(f.listener->up[1], f.listener->up[0]);
  EXPECT_FALSE(link->alive()) << "a link is of one stream";
  link->Submit(Fixture::Step(1));
  EXPECT_EQ(f.client->Open(f.listener->up[0], events), nullptr);
  link.reset();
  EXPECT_EQ(f.stream().sent.size(), 1u) << "the Hello alone";
  f.stream().Close(absl::UnavailableError("cut"));
  EXPECT_EQ(events->lost.size(), 1u) << "the second stream had no link";
}

TEST(VerifyClient, ClosingFreesTheSequenceAfterItsSteps) {
  Fixture f;
  auto events = std::make_shared<Recorder>();
  f.Welcome();
  auto link = f.client->Open(f.listener->up[0], events);
  link->Submit(Fixture::Step(1));
  const uint64_t sequence = f.stream().sent[1].batch().steps(0).sequence();
  link.reset();
  EXPECT_EQ(f.client->sequences(), 0u);
  EXPECT_EQ(f.stream().sent.size(), 2u);
  f.stream().handler->OnWritten(0);
  ASSERT_EQ(f.stream().sent.size(), 3u);
  EXPECT_EQ(f.stream().sent[2].batch().close(0), sequence);
}

TEST(VerifyClient, OnlySequencesOfThePresentStreamAreCounted) {
  Fixture f;
  auto events = std::make_shared<Recorder>();
  f.Welcome();
  auto old = f.client->Open(f.listener->up[0], events);
  auto older = f.client->Open(f.listener->up[0], events);
  EXPECT_EQ(f.client->sequences(), 2u);
  older.reset();
  EXPECT_EQ(f.client->sequences(), 1u);
  f.stream().Close(absl::UnavailableError("cut"));
  EXPECT_EQ(f.client->sequences(), 0u);
  f.timers.Advance(absl::Seconds(3));
  f.Welcome();
  EXPECT_EQ(f.client->sequences(), 0u);
  auto present = f.client->Open(f.listener->up[1], events);
  old.reset();
  EXPECT_EQ(f.client->sequences(), 1u);
}

TEST(VerifyClient, AStreamThatWasGivenUpTakesNobodyAnyMore) {
  Fixture f;
  f.Welcome();
  const base::Incarnation incarnation = f.listener->up[0];
  f.client->GiveUp(base::Incarnation{base::Number(incarnation) + 1}, "another stream");
  EXPECT_TRUE(f.client->Ready().ok());
  f.client->GiveUp(incarnation, "silent");
  EXPECT_EQ(f.listener->down, f.listener->up);
  EXPECT_NE(f.client->Ready().message().find("silent"), std::string::npos);
  EXPECT_FALSE(f.client->info().has_value());
}

TEST(VerifyClient, TheLastReportIsKeptWithTheLastCurve) {
  Fixture f;
  f.Welcome();
  v1::TargetReply reply;
  v1::Load& load = *reply.mutable_verdicts()->mutable_load();
  load.set_free_slots(3);
  load.set_queued_rows(7);
  v1::CostPoint& point = *load.add_cost_curve();
  point.set_rows(4);
  point.set_microseconds(12000);
  f.stream().handler->OnMessage(reply);
  load.clear_cost_curve();
  load.set_free_slots(2);
  load.set_free_tokens(600);
  f.stream().handler->OnMessage(reply);
  EXPECT_EQ(f.listener->free, (std::vector<uint32_t>{3, 2}));
  EXPECT_EQ(f.listener->free_tokens, (std::vector<std::optional<int64_t>>{std::nullopt, 600}));
  EXPECT_EQ(f.client->pace()->QueuedRows(f.clock.Now()), 7u);
  EXPECT_EQ(f.client->pace()->Expected(0, f.clock.Now()), absl::Milliseconds(12) * (7.0 / 4 + 1));
  const v1::Peer peer = f.client->Describe();
  EXPECT_EQ(peer.role(), v1::Peer::ROLE_TARGET);
  EXPECT_EQ(peer.address(), "t:1");
  EXPECT_TRUE(peer.ready());
  EXPECT_EQ(peer.problem(), "");
  EXPECT_EQ(peer.welcome().vocabulary_size(), 8u);
  EXPECT_EQ(peer.load().free_slots(), 2u);
  EXPECT_EQ(peer.load().cost_curve_size(), 1);
}

}  // namespace
}  // namespace tandem::orchestrator
