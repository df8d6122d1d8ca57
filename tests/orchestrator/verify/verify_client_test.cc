#include "orchestrator/verify/verify_client.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/messages/handshake.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"
#include "tests/support/log_lines.h"

namespace tandem::orchestrator::verify_client_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

struct FakeStream final : transport::Sink<internal::v1::TargetRequest> {
  bool Send(internal::v1::TargetRequest message) override {
    sent.push_back(std::move(message));
    return true;
  }
  void Close(absl::Status status) override {
    closed.push_back(status);
    if (status.ok() && !answers) return;
    if (auto ended = std::exchange(handler, nullptr)) ended->OnDone(status);
  }
  size_t queued() const override { return 0; }

  std::unique_ptr<transport::StreamHandler<internal::v1::TargetReply>> handler;
  std::vector<internal::v1::TargetRequest> sent;
  std::vector<absl::Status> closed;
  bool answers = true;  // the target ends what was closed in order
};

struct Recorder final : VerifyEvents {
  void OnVerifyReady() override {}
  void OnSlotWanted() override {}
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
        VerifyClientOptions{.target = {"t:1", "t:1"}, .hello = Hello()},
        [this](std::unique_ptr<transport::StreamHandler<internal::v1::TargetReply>> handler) {
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

  static internal::v1::Hello Hello() {
    internal::v1::Hello hello;
    hello.set_client_id("front");
    return hello;
  }
  FakeStream& stream() { return *streams.back(); }
  // The present stream ends so, and another one is opened. Returns its client id.
  std::string Reopened(absl::Status status) {
    stream().Close(std::move(status));
    timers.Advance(absl::Seconds(3));
    return stream().sent.at(0).hello().client_id();
  }
  std::unique_ptr<SequenceMux::Link> Open(base::Incarnation incarnation,
                                          std::shared_ptr<VerifyEvents> events) {
    return client->Open(incarnation, base::Advance(last_sequence), std::move(events));
  }
  void Welcome() {
    stream().handler->OnWritten(0);  // the Hello
    internal::v1::TargetReply reply;
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
  base::SequenceId last_sequence{};
  std::vector<std::shared_ptr<FakeStream>> streams;
  std::shared_ptr<Listener> listener = std::make_shared<Listener>();
  std::shared_ptr<VerifyClient> client;
};

TEST(VerifyClient, StepsThatGetReadyDuringAWriteGoTogether) {
  Fixture f;
  auto a_events = std::make_shared<Recorder>();
  auto b_events = std::make_shared<Recorder>();
  EXPECT_FALSE(f.client->Ready().ok());
  EXPECT_EQ(f.Open(base::Incarnation{1}, a_events), nullptr);
  f.Welcome();
  EXPECT_TRUE(f.client->Ready().ok());
  ASSERT_EQ(f.listener->up.size(), 1u);
  auto a = f.Open(f.listener->up[0], a_events);
  auto b = f.Open(f.listener->up[0], b_events);
  EXPECT_EQ(f.client->sequences(), 2u);
  a->Submit(Fixture::Step(1));
  ASSERT_EQ(f.stream().sent.size(), 2u) << "Hello, and the Step at once";
  a->Submit(Fixture::Step(2));
  b->Submit(Fixture::Step(3));
  ASSERT_EQ(f.stream().sent.size(), 2u);
  f.stream().handler->OnWritten(0);
  ASSERT_EQ(f.stream().sent.size(), 3u);
  const internal::v1::Batch& batch = f.stream().sent[2].batch();
  ASSERT_EQ(batch.steps_size(), 2);
  EXPECT_NE(batch.steps(0).sequence(), batch.steps(1).sequence());

  internal::v1::TargetReply reply;
  internal::v1::Verdict& verdict = *reply.mutable_verdicts()->add_verdicts();
  verdict.set_sequence(batch.steps(1).sequence());
  verdict.set_round(3);
  verdict.set_status(internal::v1::STATUS_OK);
  reply.mutable_verdicts()->add_verdicts()->set_sequence(12345);  // nobody's
  f.stream().handler->OnMessage(reply);
  EXPECT_TRUE(a_events->rounds.empty());
  EXPECT_EQ(b_events->rounds, std::vector<uint64_t>{3});
}

TEST(VerifyClient, ALostStreamIsToldAndOpenedAgainWithAHigherIncarnation) {
  Fixture f;
  auto events = std::make_shared<Recorder>();
  f.Welcome();
  auto link = f.Open(f.listener->up[0], events);
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
  EXPECT_EQ(f.Open(f.listener->up[0], events), nullptr);
  link.reset();
  EXPECT_EQ(f.stream().sent.size(), 1u) << "the Hello alone";
  f.stream().Close(absl::UnavailableError("cut"));
  EXPECT_EQ(events->lost.size(), 1u) << "the second stream had no link";
}

// Two that share a client id would fence each other's streams for ever.
TEST(VerifyClient, AClientIdThatAnotherHasIsChangedAndTheLogSaysSo) {
  const testing::LogRecorder log;
  Fixture f;
  EXPECT_EQ(f.stream().sent.at(0).hello().client_id(), "front");
  f.Welcome();
  EXPECT_EQ(f.Reopened(absl::UnavailableError("cut")), "front") << "it stays over reconnections";
  EXPECT_THAT(log.Of("client_id_shared"), IsEmpty());
  f.Welcome();
  const std::string unique = f.Reopened(messages::Overtaken("a newer stream"));
  EXPECT_THAT(unique, StartsWith("front-"));
  const std::vector<testing::LogLine> lines = log.Of("client_id_shared");
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0].fields.at("peer"), "t:1");
  EXPECT_EQ(lines[0].fields.at("client"), "front");
  EXPECT_EQ(lines[0].fields.at("now"), unique);
  EXPECT_THAT(lines[0].fields.at("hint"), HasSubstr("--client-id"));
  f.Welcome();
  EXPECT_EQ(f.Reopened(absl::UnavailableError("cut")), unique) << "that one stays, too";
}

// Refused at its Hello: the other's clock is ahead, so its incarnation is higher.
TEST(VerifyClient, AClientIdIsChangedBeforeTheWelcomeToo) {
  Fixture f;
  EXPECT_THAT(f.Reopened(messages::Overtaken("it must rise")), StartsWith("front-"));
  f.Welcome();
  EXPECT_TRUE(f.client->Ready().ok());
}

TEST(VerifyClient, OnlySequencesOfThePresentStreamAreCounted) {
  Fixture f;
  auto events = std::make_shared<Recorder>();
  f.Welcome();
  auto old = f.Open(f.listener->up[0], events);
  auto older = f.Open(f.listener->up[0], events);
  EXPECT_EQ(f.client->sequences(), 2u);
  older.reset();
  EXPECT_EQ(f.client->sequences(), 1u);
  f.stream().Close(absl::UnavailableError("cut"));
  EXPECT_EQ(f.client->sequences(), 0u);
  f.timers.Advance(absl::Seconds(3));
  f.Welcome();
  EXPECT_EQ(f.client->sequences(), 0u);
  auto present = f.Open(f.listener->up[1], events);
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
  internal::v1::TargetReply reply;
  v1::Load& load = *reply.mutable_verdicts()->mutable_load();
  load.set_free_slots(3);
  load.set_queued_rows(7);
  load.mutable_decoding()->set_sequences(5);
  load.mutable_decoding()->set_draft_tokens(1.5);
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
  EXPECT_EQ(f.client->pace()->Decoding().sequences, 5u);
  EXPECT_EQ(f.client->pace()->Decoding().draft_tokens, 1.5);
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

// A pass may take longer than the shortest watchdog, and the first verdict comes after it.
TEST(VerifyClient, WelcomeTellsWhatTheFirstStepTakes) {
  Fixture f;
  f.stream().handler->OnWritten(0);
  internal::v1::TargetReply reply;
  v1::CostPoint& point = *reply.mutable_welcome()->add_cost_curve();
  point.set_rows(1);
  point.set_microseconds(21'000'000);
  f.stream().handler->OnMessage(reply);
  EXPECT_EQ(f.client->pace()->PassTime(1), absl::Seconds(21));
  EXPECT_GE(f.client->pace()->Expected(1, f.clock.Now()), absl::Seconds(21));

  f.stream().Close(absl::UnavailableError("cut"));
  f.timers.Advance(absl::Seconds(3));
  f.Welcome();
  EXPECT_EQ(f.client->pace()->PassTime(1), absl::ZeroDuration()) << "another stream says nothing";
}

TEST(VerifyClient, ATargetThatLeavesIsNotOpenedAgain) {
  Fixture f;
  f.Welcome();
  EXPECT_TRUE(f.client->Reopen(false));
  f.stream().Close(absl::UnavailableError("cut"));
  f.timers.Advance(absl::Hours(1));
  EXPECT_EQ(f.streams.size(), 1u);
  EXPECT_TRUE(f.client->ended());
}

// A Welcome ends the trouble: the next loss waits as short as the first one did.
TEST(VerifyClient, AWelcomeResetsTheBackOff) {
  Fixture f;
  const auto until_opened = [&f] {
    const size_t before = f.streams.size();
    f.stream().Close(absl::UnavailableError("cut"));
    absl::Duration waited;
    while (f.streams.size() == before) {
      f.timers.Advance(absl::Milliseconds(10));
      waited += absl::Milliseconds(10);
    }
    return waited;
  };
  f.Welcome();
  const absl::Duration first = until_opened();
  absl::Duration last;
  for (int i = 0; i < 5; ++i) last = until_opened();
  EXPECT_GT(last, 4 * first);
  f.Welcome();
  EXPECT_LT(until_opened(), 2 * first);
}

TEST(VerifyClient, EndsItsStreamInOrderAndBreaksItOffWhereTheTargetDoesNotAnswer) {
  for (bool answers : {true, false}) {
    Fixture f;
    f.Welcome();
    f.stream().answers = answers;
    f.client->Close("the orchestrator is stopping");
    EXPECT_THAT(f.stream().closed, SizeIs(1));
    EXPECT_TRUE(f.stream().closed[0].ok()) << "a target takes no orderly end for a broken stream";
    EXPECT_EQ(f.client->ended(), answers);
    f.timers.Advance(absl::Seconds(2));
    EXPECT_TRUE(f.client->ended());
    EXPECT_TRUE(absl::IsCancelled(f.stream().closed.back()));
  }
}

}  // namespace
}  // namespace tandem::orchestrator::verify_client_test
