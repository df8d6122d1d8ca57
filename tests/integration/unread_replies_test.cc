// Clients that never read, against the real orchestrator: its memory is bounded by what its flags
// say, and calls whose clients do not read end.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/transport/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/endings.h"
#include "tests/integration/held_call.h"
#include "tests/integration/models.h"
#include "tests/integration/process_cluster.h"
#include "tests/integration/requests.h"
#include "tests/integration/scraper.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kLetters = 26;
constexpr size_t kCalls = 200;
constexpr size_t kMaxUnreadBytes = size_t{4} << 20;
// What an open call may take besides its replies: gRPC's part of it, and the message that is being
// written.
constexpr size_t kOfCall = size_t{64} << 10;

// About 200 KiB of replies: 16 texts with log probabilities.
v1::GenerateRequest LargeReplies(uint64_t seed) {
  v1::GenerateRequest request;
  for (uint32_t i = 0; i < 5; ++i) request.mutable_ids()->add_ids((seed + i) % kLetters);
  request.set_samples(16);
  request.set_max_tokens(8);
  request.set_seed(seed);
  request.mutable_logprobs()->set_top(20);
  return request;
}

// A target with a tiny model, and an orchestrator whose limits a test says.
class UnreadTest : public ::testing::Test {
 protected:
  UnreadTest() {
    WriteTinyLlama(folder_.path(), kLetters, 1);
    target_ = std::make_unique<Process>(
        "tandem-target",
        std::vector<std::string>{"--listen=" + At(0), "--model=" + folder_.path(),
                                 "--max-sequences=512", "--pool-tokens=32768", "--threads=1",
                                 "--measure=0"},
        "port_file");
  }

  void StartOrchestrator(std::vector<std::string> limits) {
    std::vector<std::string> flags = {"--listen=" + At(0), "--admin-listen=" + At(0),
                                      "--tokenizer=" + folder_.path(),
                                      "--target=" + At(target_->WaitForPort())};
    flags.insert(flags.end(), limits.begin(), limits.end());
    orchestrator_ = std::make_unique<Process>("tandem-orchestrator", std::move(flags), "port_file");
    port_ = orchestrator_->WaitForPort();
    const std::string log = orchestrator_->Output();
    std::smatch admin;
    TANDEM_CHECK(std::regex_search(log, admin, std::regex(" admin_port=(\\d+)")));
    TANDEM_CHECK(absl::SimpleAtoi(admin[1].str(), &admin_port_));
    channel_ = transport::MakeChannel(At(port_));
    TANDEM_CHECK(WaitUntil([&] { return IsServing(channel_); })) << orchestrator_->Output();
    TANDEM_CHECK(WaitUntil([&] { return Metric("open_calls") == 0; }));
  }

  std::unique_ptr<HeldCall> CallThatNeverReads(uint64_t seed) {
    if (deaf_ == nullptr) deaf_ = NarrowChannel(port_, 64);
    return std::make_unique<HeldCall>(deaf_, LargeReplies(seed), HeldCallOptions{.read_first = 0});
  }

  Scrape Scraped() const {
    absl::StatusOr<Scrape> scrape = ScrapePort(admin_port_);
    TANDEM_CHECK_OK(scrape);
    return *std::move(scrape);
  }
  size_t Metric(const std::string& name) const {
    return static_cast<size_t>(Scraped().Value("tandem:" + name));
  }

  ScratchFolder folder_;
  std::unique_ptr<Process> target_;
  std::unique_ptr<Process> orchestrator_;
  int port_ = 0;
  int admin_port_ = 0;
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<grpc::Channel> deaf_;
};

TEST_F(UnreadTest, MemoryIsBoundedByTheFlags) {
  StartOrchestrator({"--max-active-requests=16", absl::StrCat("--max-open-calls=", kCalls),
                     absl::StrCat("--max-unread-bytes=", kMaxUnreadBytes), "--reader-patience=4s"});
  // What running requests take is not the question: as many run here.
  const std::vector<v1::GenerateRequest> read(32, LargeReplies(7));
  for (const Reply& reply : SendAll(channel_, read, 16)) {
    ASSERT_TRUE(reply.status.ok()) << reply.status << orchestrator_->Output();
  }
  const auto memory = [](const Scrape& scrape) {
    return static_cast<size_t>(scrape.Value("process_resident_memory_bytes"));
  };
  ASSERT_TRUE(WaitUntil([&] { return Metric("open_calls") == 0; }));
  const size_t before = memory(Scraped());

  std::vector<std::unique_ptr<HeldCall>> calls;
  for (size_t i = 0; i < kCalls; ++i) calls.push_back(CallThatNeverReads(i));
  size_t max_memory = 0, max_unread = 0, max_open = 0;
  ASSERT_TRUE(WaitUntil([&] {
    const Scrape scrape = Scraped();
    max_memory = std::max(max_memory, memory(scrape));
    max_unread = std::max(max_unread, size_t(scrape.Value("tandem:unread_bytes")));
    max_open = std::max(max_open, size_t(scrape.Value("tandem:open_calls")));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    // Those that are left are the ones that nobody will read.
    return scrape.Sum("tandem:unread_dropped_total") == kCalls;
  }));
  const Scrape after = Scraped();
  const size_t growth = max_memory - std::min(before, max_memory);
  const size_t bound = kMaxUnreadBytes + kCalls * kOfCall;
  const auto dropped = [&](const char* cause) {
    return static_cast<size_t>(after.Value("tandem:unread_dropped_total", {{"cause", cause}}));
  };
  std::printf(
      "%zu calls that never read: --max-unread-bytes=%zu, at most %zu counted; at most %zu of "
      "--max-open-calls=%zu open; memory %zu before, %zu more at most, of %zu allowed; dropped for "
      "bytes %zu, for patience %zu\n",
      kCalls, kMaxUnreadBytes, max_unread, max_open, kCalls, before, growth, bound,
      dropped("bytes"), dropped("patience"));
  EXPECT_LE(max_unread, kMaxUnreadBytes);
  EXPECT_GT(max_unread, kMaxUnreadBytes / 2) << "this would show little";
  EXPECT_LE(max_open, kCalls);
  EXPECT_LE(growth, bound);
  EXPECT_GT(dropped("bytes"), 0u);
  EXPECT_GT(dropped("patience"), 0u);

  // Each client learns of it, and so does whoever reads the log.
  for (const auto& call : calls) {
    const absl::Status& status = call->Wait().status;
    if (absl::IsAborted(status)) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("did not read the rest for 4s"));
    } else {
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat("bytes of at most ", kMaxUnreadBytes)));
    }
  }
  EXPECT_TRUE(Says(*orchestrator_, "cause=bytes"));
  EXPECT_TRUE(Says(*orchestrator_, "cause=patience"));
  EXPECT_TRUE(WaitUntil([&] { return Metric("open_calls") == 0; }));
  EXPECT_EQ(Metric("unread_bytes"), 0u);
  EXPECT_TRUE(Send(channel_, LargeReplies(7)).status.ok());
}

// Unread replies of ended requests hold a drain up for as long as their readers may take, and no
// longer.
TEST_F(UnreadTest, ADrainWaitsNoLongerThanTheReadersPatience) {
  StartOrchestrator({"--reader-patience=1s", "--grace=1h"});
  const std::unique_ptr<HeldCall> call = CallThatNeverReads(1);
  ASSERT_TRUE(WaitUntilItSays(*orchestrator_, "samples=16"));
  orchestrator_->Signal(SIGTERM);
  EXPECT_LT(TimeToEnd(*orchestrator_), kSoon);
  EXPECT_TRUE(Says(*orchestrator_, "stopped waiting_ended=finished requests_ended=0"))
      << orchestrator_->Output();
}

// A grace that is shorter than the readers' patience is used up, and then what is unread is
// dropped.
TEST_F(UnreadTest, ADrainWaitsNoLongerThanItsGrace) {
  StartOrchestrator({"--reader-patience=1h", "--grace=1s"});
  const std::unique_ptr<HeldCall> call = CallThatNeverReads(1);
  ASSERT_TRUE(WaitUntilItSays(*orchestrator_, "samples=16"));
  orchestrator_->Signal(SIGTERM);
  EXPECT_LT(TimeToEnd(*orchestrator_), kSoon);
  EXPECT_TRUE(Says(*orchestrator_, "stopped waiting_ended=grace_over requests_ended=1"))
      << orchestrator_->Output();
}

TEST_F(UnreadTest, OneCallTooManyIsRefusedEvenThoughNoneRuns) {
  StartOrchestrator({"--max-open-calls=3"});
  std::vector<std::unique_ptr<HeldCall>> calls;
  for (size_t i = 0; i < 3; ++i) calls.push_back(CallThatNeverReads(i));
  ASSERT_TRUE(WaitUntil([&] {
    const Scrape scrape = Scraped();
    return scrape.Sum("tandem:request_success_total") == 4;  // with that of IsServing
  }));
  EXPECT_EQ(Metric("num_requests_running"), 0u);
  EXPECT_EQ(Metric("open_calls"), 3u);
  const absl::Status refused = Send(channel_, LargeReplies(9)).status;
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("3 calls are open"));
  EXPECT_EQ(Metric("calls_refused_total"), 1u);
  calls.pop_back();
  ASSERT_TRUE(WaitUntil([&] { return Metric("open_calls") == 2; }));
  EXPECT_TRUE(Send(channel_, LargeReplies(9)).status.ok());
}

}  // namespace
}  // namespace tandem::testing
