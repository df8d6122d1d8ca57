// Peers that die, stop, and come back while a request runs. Whatever happens, the ids are those
// that the target writes alone, none lost, none twice; and the record says what happened.
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/integration/cluster.h"
#include "tests/integration/process_cluster.h"
#include "tests/integration/requests.h"
#include "tests/netproxy/netproxy.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

constexpr uint32_t kTokens = 400;
// Something happens to a peer when this many tokens have come: well inside the text.
constexpr size_t kThen = 40;

const std::vector<uint32_t>& Prompt() {
  static const auto& prompt = *new std::vector<uint32_t>(
      *LoadTokenizer(DemoTarget())->Encode("The old captain looked at the sea and said"));
  return prompt;
}

// What the target writes alone.
const std::vector<uint32_t>& Expected() {
  static const auto& expected = *new std::vector<uint32_t>(GreedyAlone(
      *LoadModel(DemoTarget()), Prompt(), kTokens, LoadTokenizer(DemoTarget())->vocabulary_size()));
  return expected;
}

v1::GenerateRequest Request() { return GreedyRequest(Prompt(), kTokens, 4); }

// Calls `what` once, when kThen tokens have come.
std::function<void(const Reply&)> Once(std::function<void()> what) {
  return [what, done = false](const Reply& so_far) mutable {
    if (done || so_far.ids.size() < kThen) return;
    done = true;
    what();
  };
}

void ExpectRightIds(const Reply& reply) {
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.ids, Expected());
  EXPECT_TRUE(reply.record().exact());
}

uint32_t RoundsThatLackedTheirDraft(const Reply& reply) {
  return reply.Rounds("draft-lost") + reply.Rounds("draft-late") + reply.Rounds("draft-stale");
}

class FailureTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(Expected().size(), kTokens); }
};

TEST_F(FailureTest, DraftIsKilled) {
  ProcessCluster cluster;
  cluster.StartOrchestrator();
  Reply reply = Send(cluster.channel(), Request(), Once([&] { cluster.draft().Kill(); }));
  ExpectRightIds(reply);
  EXPECT_GT(reply.record().accepted_tokens(), 0u);
  EXPECT_GT(reply.Rounds("draft-lost"), 10u) << reply.record().DebugString();
  // The next request has none from its beginning.
  reply = Send(cluster.channel(), Request());
  ExpectRightIds(reply);
  EXPECT_EQ(reply.record().draft_tokens(), 0u);
}

TEST_F(FailureTest, DraftIsStoppedAndGoesOn) {
  ProcessCluster cluster;
  cluster.StartOrchestrator();
  Reply reply = Send(cluster.channel(), Request(), Once([&] { cluster.draft().Signal(SIGSTOP); }));
  ExpectRightIds(reply);
  EXPECT_GT(reply.Rounds("draft-late"), 10u) << reply.record().DebugString();
  cluster.draft().Signal(SIGCONT);
  // It is of use again, after at most a few requests.
  EXPECT_TRUE(WaitUntil([&] {
    reply = Send(cluster.channel(), Request());
    ExpectRightIds(reply);
    return reply.record().accepted_tokens() > 0;
  }));
}

TEST_F(FailureTest, DraftIsRestarted) {
  ProcessCluster cluster;
  cluster.StartOrchestrator();
  Reply reply = Send(cluster.channel(), Request(), Once([&] { cluster.RestartDraft(); }));
  ExpectRightIds(reply);
  EXPECT_TRUE(WaitUntil([&] {
    reply = Send(cluster.channel(), Request());
    ExpectRightIds(reply);
    return reply.record().accepted_tokens() > 0;
  }));
}

TEST_F(FailureTest, DraftAndTargetOfTreesAreRestarted) {
  ProcessCluster cluster;
  cluster.StartOrchestrator();
  v1::GenerateRequest request = Request();
  request.mutable_speculation()->set_draft_nodes(16);
  Reply reply = Send(cluster.channel(), request, Once([&] { cluster.RestartDraft(); }));
  ExpectRightIds(reply);
  reply = Send(cluster.channel(), request, Once([&] { cluster.RestartTarget(); }));
  ExpectRightIds(reply);
  EXPECT_GE(reply.record().target_replays(), 1u);
  EXPECT_TRUE(WaitUntil([&] {
    reply = Send(cluster.channel(), request);
    ExpectRightIds(reply);
    return reply.record().tree_rounds() > 0 && reply.record().accepted_tokens() > 0;
  }));
}

TEST_F(FailureTest, TargetIsRestarted) {
  ProcessCluster cluster;
  cluster.StartOrchestrator();
  Reply reply = Send(cluster.channel(), Request(), Once([&] { cluster.RestartTarget(); }));
  ExpectRightIds(reply);
  EXPECT_GE(reply.record().target_replays(), 1u);
}

TEST_F(FailureTest, TargetIsStoppedAndGoesOn) {
  ProcessCluster cluster;
  cluster.StartOrchestrator();
  bool stopped = false;
  Reply reply = Send(cluster.channel(), Request(), [&](const Reply& so_far) {
    if (stopped || so_far.ids.size() < kThen) return;
    stopped = true;
    cluster.target().Signal(SIGSTOP);
    // As long as the watchdog needs to see it; the text goes on after that.
    absl::SleepFor(absl::Seconds(1));
    cluster.target().Signal(SIGCONT);
  });
  ExpectRightIds(reply);
}

// Proxies between the orchestrator and its peers, all in this process.
class CutTest : public FailureTest {
 protected:
  void SetUp() override {
    FailureTest::SetUp();
    Start(target_service::Options().linger);
  }

  void Start(absl::Duration linger) {
    cluster_.reset();
    ClusterOptions options = DemoOptions();
    options.linger = linger;
    options.target_proxy = [this](const std::string& address) {
      return Through(address, target_proxy_);
    };
    options.draft_proxy = [this](const std::string& address) {
      return Through(address, draft_proxy_);
    };
    cluster_ = std::make_unique<InProcessCluster>(std::move(options));
  }

  static std::string Through(const std::string& address,
                             std::unique_ptr<netproxy::NetProxy>& proxy) {
    proxy = *netproxy::NetProxy::Start(address);
    return proxy->address();
  }

  // They outlive the cluster's channels.
  std::unique_ptr<netproxy::NetProxy> target_proxy_;
  std::unique_ptr<netproxy::NetProxy> draft_proxy_;
  std::unique_ptr<InProcessCluster> cluster_;
};

TEST_F(CutTest, TargetStreamIsCut) {
  Reply reply = Send(cluster_->channel(), Request(), Once([&] { target_proxy_->Reset(); }));
  ExpectRightIds(reply);
  EXPECT_EQ(reply.record().target_replays(), 1u);
  EXPECT_TRUE(cluster_->AllFreed());
}

TEST_F(CutTest, TargetStreamIsCutAgainAndAgain) {
  size_t next = kThen;
  Reply reply = Send(cluster_->channel(), Request(), [&](const Reply& so_far) {
    if (so_far.ids.size() < next) return;
    next = so_far.ids.size() + 60;
    target_proxy_->Reset();
  });
  ExpectRightIds(reply);
  EXPECT_GE(reply.record().target_replays(), 2u);
  EXPECT_TRUE(cluster_->AllFreed());
}

TEST_F(CutTest, ManyRequestsShareTheCut) {
  std::vector<v1::GenerateRequest> requests(8, Request());
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].mutable_speculation()->set_fixed(static_cast<uint32_t>(i % 5));
  }
  std::vector<Reply> replies;
  std::thread sender([&] { replies = SendAll(cluster_->channel(), requests, 8); });
  EXPECT_TRUE(WaitUntil([&] { return cluster_->target_sequences() == requests.size(); }));
  target_proxy_->Reset();
  sender.join();
  uint32_t replays = 0;
  for (const Reply& reply : replies) {
    ExpectRightIds(reply);
    replays += reply.record().target_replays();
  }
  EXPECT_GE(replays, 1u);
  EXPECT_TRUE(cluster_->AllFreed());
}

// What a broken stream held lingers at the target. Each request finds its own again, so nothing of
// it is computed twice. With and without a seed, which decides what is drawn from it.
TEST_F(CutTest, WhatTheTargetHoldsIsNotComputedAgain) {
  constexpr uint32_t kRequests = 6;
  // In flight when the stream breaks: the row of the last committed token, computed for a verdict
  // that nobody reads, and again.
  constexpr uint64_t kRowsACut = 2;
  Start(absl::Minutes(1));
  // Some have ended before: counts of old and new streams differ.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Send(cluster_->channel(), GreedyRequest(Prompt(), 2, 0)).status.ok());
  }
  std::vector<v1::GenerateRequest> requests;
  for (uint32_t i = 0; i < kRequests; ++i) {
    std::vector<uint32_t> prompt(200, 100 + i);  // long, and each of its own
    prompt.insert(prompt.end(), Prompt().begin(), Prompt().end());
    requests.push_back(GreedyRequest(prompt, 300, 0));
    if (i % 2 == 0) continue;
    requests.back().set_seed(i);
    requests.back().mutable_sampling()->set_temperature(0.8F);
    requests.back().mutable_sampling()->set_repetition_penalty(1.1F);
  }
  const std::vector<Reply> expected = SendAll(cluster_->channel(), requests, kRequests);
  ASSERT_TRUE(cluster_->AllFreed());

  const uint64_t before = cluster_->target_rows();
  std::vector<Reply> replies;
  std::thread sender([&] { replies = SendAll(cluster_->channel(), requests, kRequests); });
  // All prompts are read, and the texts are well under way.
  const uint64_t prompts = kRequests * requests[0].ids().ids_size();
  EXPECT_TRUE(
      WaitUntil([&] { return cluster_->target_rows() - before >= prompts + kRequests * kThen; }));
  target_proxy_->Reset();
  sender.join();

  uint64_t needed = 0;
  uint64_t allowed = 0;
  for (uint32_t i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(replies[i].status.ok()) << replies[i].status;
    EXPECT_EQ(replies[i].ids, expected[i].ids) << i;
    EXPECT_EQ(replies[i].record().target_replays(), 1u) << i;
    needed += static_cast<uint64_t>(requests[i].ids().ids_size()) + replies[i].ids.size() - 1;
    allowed += kRowsACut;
  }
  const uint64_t computed = cluster_->target_rows() - before;
  EXPECT_LE(computed, needed + allowed);
  EXPECT_GE(computed, needed);
  EXPECT_TRUE(cluster_->AllFreed());
}

TEST_F(CutTest, DraftStreamIsCut) {
  Reply reply = Send(cluster_->channel(), Request(), Once([&] { draft_proxy_->Reset(); }));
  ExpectRightIds(reply);
  EXPECT_GE(RoundsThatLackedTheirDraft(reply), 1u) << reply.record().DebugString();
  EXPECT_GE(reply.record().draft_reconnections(), 1u);
  EXPECT_TRUE(cluster_->AllFreed());
}

TEST_F(CutTest, DraftStalls) {
  Reply reply = Send(cluster_->channel(), Request(),
                     Once([&] { draft_proxy_->Stall(netproxy::Direction::kToClient); }));
  ExpectRightIds(reply);
  EXPECT_GT(reply.Rounds("draft-late"), 10u) << reply.record().DebugString();
}

TEST_F(CutTest, ClientCancels) {
  auto stub = v1::Generation::NewStub(cluster_->channel());
  grpc::ClientContext context;
  auto reader = stub->Generate(&context, Request());
  v1::GenerateReply message;
  size_t tokens = 0;
  while (tokens < kThen && reader->Read(&message)) tokens += message.delta().token_ids_size();
  EXPECT_EQ(cluster_->target_sequences(), 1u);
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(cluster_->AllFreed());
}

}  // namespace
}  // namespace tandem::testing
