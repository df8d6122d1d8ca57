// Clients that read slowly or not at all: requests that pause, ended ones that wait for their
// readers, and what all calls may hold together.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/call_fixture.h"
#include "tests/support/log_lines.h"

namespace tandem::orchestrator::unread_calls_test {
namespace {

using ::tandem::testing::LogLine;
using ::tandem::testing::LogRecorder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

GenerationRequest Request(uint32_t samples) {
  GenerationRequest request = SmallRequest(0u, 1.0);
  request.rule = acceptance::Rule::kCoupled;
  request.samples = samples;
  return request;
}

std::shared_ptr<UnreadReplies> All(size_t max_bytes, size_t max_call_bytes = size_t{1} << 20) {
  return std::make_shared<UnreadReplies>(UnreadLimits{100, max_bytes, max_call_bytes});
}

uint64_t Dropped(const UnreadReplies& all, UnreadDrop cause) {
  return all.counts().dropped[static_cast<size_t>(cause)];
}

// Runs to the text's end, and nobody reads.
void RunUnread(CallFixture& f) {
  f.reads = false;
  f.Begin();
  f.Run();
}

TEST(UnreadCalls, TheReadersPatienceRunsToTheLastMessage) {
  const LogRecorder log;
  const auto all = All(size_t{1} << 20);
  CallFixture f(Request(2), {}, {}, all);
  RunUnread(f);
  ASSERT_EQ(f.done, 1);
  ASSERT_TRUE(f.sink->closed->ok()) << *f.sink->closed;
  const size_t bytes = all->counts().bytes;
  EXPECT_GT(bytes, 2 * 32 * 4u);
  f.harness.timers.Advance(absl::Seconds(59));
  EXPECT_FALSE(f.sink->aborted.has_value());
  f.harness.timers.Advance(absl::Seconds(2));
  ASSERT_TRUE(f.sink->aborted.has_value());
  EXPECT_EQ(f.sink->aborted->code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(f.sink->aborted->message()),
              AllOf(HasSubstr("did not read the rest for 1m after the text's end"),
                    HasSubstr(std::to_string(bytes))));
  EXPECT_EQ(all->counts().bytes, 0u);
  EXPECT_EQ(Dropped(*all, UnreadDrop::kPatience), 1u);
  const std::vector<LogLine> lines = log.Of("unread_dropped");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].fields.at("cause"), "patience");
  EXPECT_EQ(lines[0].fields.at("status"), "ABORTED");
  EXPECT_EQ(lines[0].fields.at("bytes"), std::to_string(bytes));
  f.call->OnWritten();  // was on its way
  f.harness.timers.Advance(absl::Hours(1));
  EXPECT_EQ(Dropped(*all, UnreadDrop::kPatience), 1u);
}

TEST(UnreadCalls, WhoReadsWithinItGetsAll) {
  const auto all = All(size_t{1} << 20);
  CallFixture f(Request(2), {}, {}, all);
  RunUnread(f);
  f.harness.timers.Advance(absl::Seconds(59));
  f.Read();
  EXPECT_EQ(all->counts().bytes, 0u);
  f.harness.timers.Advance(absl::Hours(1));
  EXPECT_FALSE(f.sink->aborted.has_value());
  for (uint32_t i = 0; i < 2; ++i) EXPECT_EQ(f.Ids(i), f.Alone(i));
}

TEST(UnreadCalls, APatienceShorterThanThePauseEndsThePause) {
  LoopOptions loop;
  loop.max_undelivered_tokens = 4;
  loop.abort_after = absl::Seconds(2);
  CallFixture f(Request(1), loop);
  f.reads = false;
  f.Begin();
  f.Run([&] { return f.harness.queue.empty(); });
  ASSERT_EQ(f.done, 0);
  const concurrency::Instant paused = f.harness.clock.Now();
  f.Run();
  EXPECT_EQ(f.sink->aborted->code(), absl::StatusCode::kAborted);
  EXPECT_GE(f.harness.clock.Now() - paused, absl::Seconds(1));
  EXPECT_LE(f.harness.clock.Now() - paused, absl::Seconds(2));
}

// Records are not tokens: it is their bytes that hold the request up.
TEST(UnreadCalls, RoundRecordsOfASlowReaderPauseTheRequest) {
  constexpr size_t kMax = 24 << 10;
  const auto all = All(size_t{1} << 20, kMax);
  GenerationRequest request = Request(8);
  request.round_records = true;
  CallFixture f(request, {}, {}, all);
  f.reads = false;
  f.Begin();
  f.Run([&] { return f.harness.queue.empty(); });
  ASSERT_EQ(f.done, 0) << "it waits for its reader";
  EXPECT_GT(all->counts().bytes, kMax);
  EXPECT_LT(all->counts().bytes, kMax + 8 * 2048)
      << "a round of each sample may have been on its way";
  f.reads = true;
  f.Read();
  f.Run();
  ASSERT_TRUE(f.sink->closed->ok()) << *f.sink->closed;
  size_t rounds = 0;
  for (const v1::GenerateReply& reply : f.sink->sent) rounds += reply.has_round() ? 1 : 0;
  EXPECT_EQ(rounds, f.last().speculation().rounds());
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(f.Ids(i), f.Alone(i)) << i;
}

// What calls hold that have ended counts as well.
TEST(UnreadCalls, BeyondTheBytesOfAllCallsTheLargestEnds) {
  const LogRecorder log;
  const auto all = All(100 << 10);
  CallFixture deaf(Request(12), {}, {}, all);
  RunUnread(deaf);
  ASSERT_TRUE(deaf.sink->closed->ok()) << *deaf.sink->closed;
  const size_t held = all->counts().bytes;
  ASSERT_GT(held, size_t{40} << 10) << "or it would not be the largest";
  ASSERT_LT(held, size_t{100} << 10);
  std::vector<std::unique_ptr<CallFixture>> others;
  while (!deaf.sink->aborted.has_value()) {
    ASSERT_LT(others.size(), 50u);
    others.push_back(
        std::make_unique<CallFixture>(Request(1), LoopOptions(), CallFixture::Watch(), all));
    RunUnread(*others.back());
    EXPECT_LE(all->counts().bytes, size_t{100} << 10);
  }
  EXPECT_EQ(deaf.sink->aborted->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(deaf.sink->aborted->message()), HasSubstr(std::to_string(held)));
  EXPECT_EQ(Dropped(*all, UnreadDrop::kBytes), 1u);
  ASSERT_EQ(log.Of("unread_dropped").size(), 1u);
  EXPECT_EQ(log.Of("unread_dropped")[0].fields.at("cause"), "bytes");
  EXPECT_EQ(log.Of("unread_dropped")[0].fields.at("bytes"), std::to_string(held));
  for (const auto& other : others) EXPECT_TRUE(other->sink->closed->ok());
  deaf.harness.timers.Advance(absl::Hours(1));
  EXPECT_EQ(Dropped(*all, UnreadDrop::kPatience), 0u) << "it is over";
}

TEST(UnreadCalls, OneThatRunsEndsSoToo) {
  const auto all = All(10 << 10);
  CallFixture f(Request(4), {}, {}, all);
  RunUnread(f);
  EXPECT_EQ(f.done, 1);
  ASSERT_TRUE(f.sink->aborted.has_value());
  EXPECT_EQ(f.sink->aborted->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(f.sink->aborted->message()), HasSubstr("of at most 10240"));
  EXPECT_LE(all->counts().bytes, size_t{10} << 10);
  f.harness.DeliverAll();
  EXPECT_EQ(f.open_sequences(), 0u);
}

// Each sample has text that waits to be joined when the deadline comes.
TEST(UnreadCalls, WhatIsReadAfterAFailureLeavesNothing) {
  const auto all = All(size_t{1} << 20);
  GenerationRequest request = Request(2);
  request.deadline = testing::FakeClock().Now() + absl::Milliseconds(600);
  CallFixture f(request, {}, {}, all);
  RunUnread(f);
  ASSERT_EQ(f.sink->closed->code(), absl::StatusCode::kDeadlineExceeded);
  ASSERT_GT(f.sink->sent.size(), 2 * TokenStream::kMaxQueuedMessages) << "nothing is joined yet";
  EXPECT_GT(all->counts().bytes, 0u);
  f.Read();
  EXPECT_EQ(all->counts().bytes, 0u);
  EXPECT_FALSE(f.sink->aborted.has_value());
}

// ---- what observers hear, so the log and the metrics ----

class Hears final : public RequestObserver {
 public:
  explicit Hears(std::vector<absl::Status>& ends) : ends_(ends) {}
  void OnEnded(const RequestEnd& end) override { ends_.push_back(end.status); }

 private:
  std::vector<absl::Status>& ends_;
};

absl::Status StatusAfter(absl::Status stream) {
  std::vector<absl::Status> ends;
  CallFixture f(Request(2), {}, [&ends](const auto&) { return std::make_unique<Hears>(ends); });
  f.Begin();
  f.Run([&] { return f.Ids(1).size() >= 5; });
  f.call->OnStreamOver(std::move(stream));
  EXPECT_EQ(f.done, 1);
  f.harness.DeliverAll();
  EXPECT_EQ(f.open_sequences(), 0u);
  EXPECT_EQ(ends.size(), 1u);
  return ends.empty() ? absl::UnknownError("none") : ends[0];
}

TEST(UnreadCalls, AStreamThatTheTransportEndedIsNoClientThatWentAway) {
  const absl::Status full = absl::ResourceExhaustedError("the peer reads too slowly");
  EXPECT_EQ(StatusAfter(full), full);
  EXPECT_EQ(StatusAfter(absl::CancelledError("by the client")),
            absl::CancelledError("the client went away"));
}

TEST(UnreadCalls, NothingIsLeftOfAStreamThatIsOver) {
  const auto all = All(size_t{1} << 20);
  CallFixture f(Request(2), {}, {}, all);
  RunUnread(f);
  EXPECT_GT(all->counts().bytes, 0u);
  f.call->OnStreamOver(absl::CancelledError("by the client"));
  EXPECT_EQ(all->counts().bytes, 0u);
  f.harness.timers.Advance(absl::Hours(1));
  EXPECT_EQ(Dropped(*all, UnreadDrop::kPatience), 0u);
}

TEST(UnreadCalls, ARequestPausesWhenAllItsSamplesDo) {
  LoopOptions loop;
  loop.max_undelivered_tokens = 8;
  GenerationRequest request = Request(3);
  request.max_tokens = 60;
  request.sampling.stop_token_ids = {3};
  CallFixture f(request, loop);
  f.reads = false;
  f.Begin();
  f.harness.DeliverAll();
  EXPECT_THAT(f.paused, ElementsAre(true));
  EXPECT_EQ(f.done, 0);
  f.Read();
  EXPECT_THAT(f.paused, ElementsAre(true, false));
  f.reads = true;
  f.Run();
  EXPECT_EQ(f.done, 1);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(f.Ids(i), f.Alone(i)) << i;
}

}  // namespace
}  // namespace tandem::orchestrator::unread_calls_test
