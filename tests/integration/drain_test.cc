// How the services end: what runs finishes, what has not begun goes elsewhere, and nobody waits for
// longer than he was told.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <regex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/common/orchestrator_channel.h"
#include "common/base/check.h"
#include "common/transport/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/admin/http_client.h"
#include "tests/common/transport/echo.h"
#include "tests/integration/endings.h"
#include "tests/integration/held_call.h"
#include "tests/integration/process_cluster.h"
#include "tests/integration/requests.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

const std::vector<uint32_t> kPrompt = {263, 793, 286};

// Asks of health at HOST:PORT: 1 is SERVING, 2 NOT_SERVING.
class HealthWatch final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit HealthWatch(const std::string& address)
      : stub_(transport::MakeChannel(address)), request_(transport::ToBytes("")) {
    stub_.PrepareBidiStreamingCall(&context_, "/grpc.health.v1.Health/Watch", {}, this);
    StartWriteLast(&request_, {});
    StartRead(&reply_);
    StartCall();
  }
  ~HealthWatch() override {
    context_.TryCancel();
    EXPECT_TRUE(WaitUntil([this] { return over_.load(); }));
  }

  int last() const { return last_; }
  bool over() const { return over_; }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    const std::string text = transport::ToText(reply_);
    last_ = text.size() == 2 ? text[1] : 0;
    StartRead(&reply_);
  }
  void OnDone(const grpc::Status&) override { over_ = true; }

 private:
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer reply_;
  std::atomic<int> last_{-1};
  std::atomic<bool> over_{false};
};

// A target, a draft and as many orchestrators as are started.
class DrainTest : public ::testing::Test {
 protected:
  struct Front {
    std::unique_ptr<Process> process;
    int port = 0;
    std::shared_ptr<grpc::Channel> channel;
  };

  Front StartFront(const Flags& more, int port = 0) {
    Flags flags = {"--listen=" + At(port), absl::StrCat("--tokenizer=", DemoTarget()),
                   "--target=" + cluster_.target_address(), "--draft=" + cluster_.draft_address()};
    flags.insert(flags.end(), more.begin(), more.end());
    Front front;
    front.process = std::make_unique<Process>("tandem-orchestrator", flags, "port_file");
    front.port = front.process->WaitForPort();
    front.channel = transport::MakeChannel(At(front.port));
    TANDEM_CHECK(WaitUntil([&] { return IsServing(front.channel); })) << front.process->Output();
    return front;
  }

  static int Count(const Front& front, const std::string& words) {
    const std::string log = front.process->Output();
    int count = 0;
    for (size_t at = log.find(words); at != log.npos; at = log.find(words, at + 1)) ++count;
    return count;
  }

  // How many wait to be admitted there; needs --admin-listen.
  static size_t Waiting(const Front& front) {
    const std::string log = front.process->Output();
    std::smatch port;
    TANDEM_CHECK(std::regex_search(log, port, std::regex(" admin_port=(\\d+)")));
    const std::string text =
        admin::Http(std::stoi(port[1]), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    std::smatch number;
    const std::regex gauge("tandem:num_requests_waiting(\\{[^}]*\\})? (\\d+)\n");
    return std::regex_search(text, number, gauge) ? std::stoul(number[2]) : 1000;
  }

  // A request whose reader takes the first message and no more.
  static std::unique_ptr<HeldCall> HoldPlace(const Front& front) {
    auto call =
        std::make_unique<HeldCall>(NarrowChannel(front.port, 64), GreedyRequest(kPrompt, 400, 0),
                                   HeldCallOptions{.read_first = 1});
    TANDEM_CHECK(WaitUntil([&] { return call->started(); }));
    return call;
  }

  ProcessCluster cluster_;
};

std::string Both(int first, int second) {
  return absl::StrCat("ipv4:", At(first), ",", At(second));
}

// One that waits at an orchestrator which drains has not begun: with the service config it begins
// at the other one, without (the control) its client hears of it. The target stands still, so that
// nobody's place gets free.
TEST_F(DrainTest, WhatHasNotBegunGoesToAnotherOrchestrator) {
  for (const bool with_config : {true, false}) {
    Front leaving =
        StartFront({"--max-active-requests=1", "--grace=1m", "--admin-listen=127.0.0.1:0"});
    Front staying = StartFront({});
    const std::string both = Both(leaving.port, staying.port);
    const std::shared_ptr<grpc::Channel> channel =
        with_config ? client::OrchestratorChannel(both)
                    : transport::MakePlainChannel(both, {}, grpc::ChannelArguments());
    // Two, of which round robin sends one there, once it is connected to both. Without it both go
    // to the first address.
    const size_t there = with_config ? 1 : 2;
    const std::string served = "request id=";
    ASSERT_TRUE(WaitUntil([&] {
      EXPECT_TRUE(IsServing(channel));
      return !with_config || (Count(leaving, served) > 1 && Count(staying, served) > 1);
    }));
    cluster_.target().Signal(SIGSTOP);
    HeldCall running(leaving.channel, GreedyRequest(kPrompt, 100, 0));
    ASSERT_TRUE(WaitUntil([&] { return running.started(); }));
    std::vector<std::unique_ptr<HeldCall>> calls;
    for (int i = 0; i < 2; ++i) {
      calls.push_back(std::make_unique<HeldCall>(channel, GreedyRequest(kPrompt, 8, 2)));
    }
    ASSERT_TRUE(WaitUntil([&] { return Waiting(leaving) == there; }));
    leaving.process->Signal(SIGTERM);
    ASSERT_TRUE(WaitUntilItSays(*leaving.process, "refusing running=1"));
    cluster_.target().Signal(SIGCONT);
    for (const auto& call : calls) {
      const absl::Status& status = call->Wait().status;
      if (with_config) {
        EXPECT_TRUE(status.ok()) << status;
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      }
    }
    // What ran, runs to its end.
    EXPECT_TRUE(running.Wait().status.ok()) << running.Wait().status;
    EXPECT_EQ(running.Wait().ids.size(), 100u);
    TimeToEnd(*leaving.process);
    EXPECT_TRUE(Says(*leaving.process, "stopped waiting_ended=finished requests_ended=0"))
        << leaving.process->Output();
  }
}

// All of a text's ids. What has begun is not sent again by gRPC: where it breaks off, its client
// asks for the rest.
std::vector<uint32_t> SendAndResume(const std::shared_ptr<grpc::Channel>& channel,
                                    v1::GenerateRequest request) {
  std::vector<uint32_t> ids;
  const uint32_t max = request.max_tokens();
  while (ids.size() < max) {
    request.clear_output_prefix_ids();
    request.mutable_output_prefix_ids()->Add(ids.begin(), ids.end());
    const Reply reply = Send(channel, request);
    EXPECT_TRUE(reply.status.ok() || (absl::IsUnavailable(reply.status) && !reply.ids.empty()))
        << reply.status;
    if (reply.ids.empty()) break;
    ids.insert(ids.end(), reply.ids.begin(), reply.ids.end());
  }
  return ids;
}

// Each of two orchestrators is replaced while requests come all the time. That none of them fails
// at all is tests/deploy's, where there are thousands.
TEST_F(DrainTest, NoTextIsLostWhileOrchestratorsAreReplaced) {
  Front fronts[2] = {StartFront({}), StartFront({})};
  const std::string both = Both(fronts[0].port, fronts[1].port);
  const v1::GenerateRequest request = GreedyRequest(kPrompt, 12, 4);
  const std::vector<uint32_t> expected = Send(fronts[0].channel, request).ids;
  ASSERT_EQ(expected.size(), 12u);
  std::atomic<bool> over{false};
  std::atomic<int> served{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      const std::shared_ptr<grpc::Channel> channel = client::OrchestratorChannel(both);
      while (!over) {
        EXPECT_EQ(SendAndResume(channel, request), expected);
        ++served;
      }
    });
  }
  for (Front& front : fronts) {
    const int before = served;
    EXPECT_TRUE(WaitUntil([&] { return served > before + 20; }));
    front.process->Signal(SIGTERM);
    TimeToEnd(*front.process);
    front = StartFront({}, front.port);
  }
  const int before = served;
  EXPECT_TRUE(WaitUntil([&] { return served > before + 20; }));
  over = true;
  for (std::thread& client : clients) client.join();
}

TEST_F(DrainTest, AnOrchestratorIsNotReadyAtOnceButTakesRequestsDuringItsDelay) {
  Front front = StartFront({"--drain-delay=10m", "--grace=1h"});
  const HealthWatch watch(At(front.port));
  ASSERT_TRUE(WaitUntil([&] { return watch.last() == 1; }));
  front.process->Signal(SIGTERM);
  ASSERT_TRUE(WaitUntil([&] { return watch.last() == 2; }));
  const Reply reply = Send(transport::MakeChannel(At(front.port)), GreedyRequest(kPrompt, 8, 2));
  EXPECT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_FALSE(Says(*front.process, "refusing"));
  front.process->Signal(SIGTERM);  // enough of that
  EXPECT_LT(TimeToEnd(*front.process), kSoon);
  EXPECT_TRUE(Says(*front.process, "stopped waiting_ended=second_signal"));
}

TEST_F(DrainTest, AWatchOfHealthHoldsNothingUp) {
  Front front = StartFront({"--grace=1h"});
  const HealthWatch watch(At(front.port));
  ASSERT_TRUE(WaitUntil([&] { return watch.last() == 1; }));
  front.process->Signal(SIGTERM);
  EXPECT_LT(TimeToEnd(*front.process), kSoon);
  EXPECT_TRUE(WaitUntil([&] { return watch.over(); }));
}

// One that runs, and one that is finished but for its reader.
TEST_F(DrainTest, AnOrchestratorEndsWhatIsLeftAfterItsGrace) {
  Front front = StartFront({"--grace=1s"});
  const std::unique_ptr<HeldCall> unread = HoldPlace(front);
  cluster_.target().Signal(SIGSTOP);
  HeldCall running(front.channel, GreedyRequest(kPrompt, 400, 0));
  ASSERT_TRUE(WaitUntil([&] { return running.started(); }));
  front.process->Signal(SIGTERM);
  const absl::Duration took = TimeToEnd(*front.process);
  cluster_.target().Signal(SIGCONT);
  EXPECT_GE(took, absl::Milliseconds(900));
  EXPECT_LT(took, kSoon);
  EXPECT_TRUE(Says(*front.process, "stopped waiting_ended=grace_over requests_ended=2"))
      << front.process->Output();
  EXPECT_EQ(running.Wait().status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(running.Wait().status.message(), HasSubstr("resume at another one"));
  unread->ReadOn();
  EXPECT_FALSE(unread->Wait().status.ok());
}

// Its loop is long done when it begins to read.
TEST_F(DrainTest, ASlowReaderGetsAllOfIt) {
  Front front = StartFront({"--grace=1m"});
  const std::unique_ptr<HeldCall> unread = HoldPlace(front);
  ASSERT_TRUE(WaitUntilItSays(*front.process, "output_tokens=400"));
  front.process->Signal(SIGTERM);
  ASSERT_TRUE(WaitUntilItSays(*front.process, "refusing running=0"));
  // Far longer than a last message may take that nobody has to wait for.
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  unread->ReadOn();
  EXPECT_TRUE(unread->Wait().status.ok()) << unread->Wait().status;
  EXPECT_EQ(unread->Wait().ids.size(), 400u);
  TimeToEnd(*front.process);
  EXPECT_TRUE(Says(*front.process, "stopped waiting_ended=finished requests_ended=0"));
}

TEST_F(DrainTest, ASecondSignalEndsTheWaiting) {
  Front front = StartFront({"--grace=1h"});
  const std::unique_ptr<HeldCall> running = HoldPlace(front);
  front.process->Signal(SIGTERM);
  ASSERT_TRUE(WaitUntilItSays(*front.process, "refusing running=1"));
  front.process->Signal(SIGTERM);
  EXPECT_LT(TimeToEnd(*front.process), kSoon);
  EXPECT_TRUE(Says(*front.process, "stopped waiting_ended=second_signal requests_ended=1"))
      << front.process->Output();
}

}  // namespace
}  // namespace tandem::testing
