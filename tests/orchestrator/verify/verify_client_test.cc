#include "orchestrator/verify/verify_client.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"

namespace tandem::orchestrator {
namespace {

struct FakeStream final : rpc::Sink<v1::TargetRequest> {
  bool Send(v1::TargetRequest message) override {
    sent.push_back(std::move(message));
    return true;
  }
  void Close(absl::Status status) override {
    if (auto ended = std::exchange(handler, nullptr)) ended->OnDone(status);
  }
  size_t queued() const override { return 0; }

  std::unique_ptr<rpc::StreamHandler<v1::TargetReply>> handler;
  std::vector<v1::TargetRequest> sent;
};

struct Recorder final : VerifyEvents {
  void OnVerifyReady(TargetInfo target) override { ready.push_back(target.incarnation); }
  void OnVerifyLost(uint64_t incarnation, std::string) override { lost.push_back(incarnation); }
  void OnVerdict(uint64_t, VerifyReply reply) override { rounds.push_back(reply.round); }
  std::vector<uint64_t> ready;
  std::vector<uint64_t> lost;
  std::vector<uint64_t> rounds;
};

struct Fixture {
  Fixture() : timers(clock) {
    client = std::make_shared<VerifyClient>(
        VerifyClientOptions{},
        [this](std::unique_ptr<rpc::StreamHandler<v1::TargetReply>> handler) {
          auto stream = std::make_shared<FakeStream>();
          stream->handler = std::move(handler);
          streams.push_back(stream);
          return stream;
        },
        [](const v1::Welcome&, std::function<void(absl::Status)> done) { done(absl::OkStatus()); },
        timers, clock);
    client->Start();
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
  std::shared_ptr<VerifyClient> client;
};

TEST(VerifyClient, StepsThatGetReadyDuringAWriteGoTogether) {
  Fixture f;
  auto a_events = std::make_shared<Recorder>();
  auto b_events = std::make_shared<Recorder>();
  auto a = f.client->NewSession(a_events);
  auto b = f.client->NewSession(b_events);
  EXPECT_FALSE(f.client->Ready().ok());
  f.Welcome();
  EXPECT_TRUE(f.client->Ready().ok());
  ASSERT_EQ(a_events->ready.size(), 1u);
  const uint64_t incarnation = a_events->ready[0];
  a->Submit(incarnation, Fixture::Step(1));
  ASSERT_EQ(f.stream().sent.size(), 2u) << "Hello, and the Step at once";
  a->Submit(incarnation, Fixture::Step(2));
  b->Submit(incarnation, Fixture::Step(3));
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
  auto session = f.client->NewSession(events);
  f.Welcome();
  f.stream().Close(absl::UnavailableError("cut"));
  EXPECT_EQ(events->lost, events->ready);
  EXPECT_FALSE(f.client->Ready().ok());
  session->Submit(events->ready[0], Fixture::Step(1));  // goes nowhere
  f.timers.Advance(absl::Seconds(3));
  ASSERT_EQ(f.streams.size(), 2u);
  f.Welcome();
  ASSERT_EQ(events->ready.size(), 2u);
  EXPECT_GT(events->ready[1], events->ready[0]);
  EXPECT_EQ(f.stream().sent.size(), 1u) << "the Hello alone";
}

TEST(VerifyClient, ClosingFreesTheSequenceAfterItsSteps) {
  Fixture f;
  auto events = std::make_shared<Recorder>();
  auto session = f.client->NewSession(events);
  f.Welcome();
  session->Submit(events->ready[0], Fixture::Step(1));
  const uint64_t sequence = f.stream().sent[1].batch().steps(0).sequence();
  session.reset();
  EXPECT_EQ(f.stream().sent.size(), 2u);
  f.stream().handler->OnWritten(0);
  ASSERT_EQ(f.stream().sent.size(), 3u);
  EXPECT_EQ(f.stream().sent[2].batch().close(0), sequence);
}

}  // namespace
}  // namespace tandem::orchestrator
