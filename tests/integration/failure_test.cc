// Peers that die, stop, and come back while a request runs. Whatever happens, the ids are those
// that the target writes alone, none lost, none twice. Streams that are cut or stall:
// coupled_equality_test.cc, tree_equality_test.cc.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/serving/serve.h"
#include "gtest/gtest.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "target_service/engine/cpu/cpu_engine.h"
#include "target_service/service.h"
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

class FailureTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(Expected().size(), kTokens); }
};

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

// Its device fails for good in the middle of a pass.
class LosesItsDevice final : public model::LanguageModel {
 public:
  // `lost` outlives it.
  LosesItsDevice(std::unique_ptr<model::LanguageModel> model, const std::atomic<bool>& lost)
      : model_(std::move(model)), lost_(lost) {}

  const model::ModelInfo& info() const override { return model_->info(); }
  absl::StatusOr<std::unique_ptr<model::Cache>> NewCache(int max_length) override {
    return model_->NewCache(max_length);
  }
  absl::StatusOr<model::Logits> Forward(absl::Span<const model::ForwardPart> parts) override {
    if (lost_) return absl::InternalError("launch failed");
    return model_->Forward(parts);
  }
  absl::Status DeviceStatus() override {
    if (lost_) return absl::InternalError("an illegal memory access was encountered (700)");
    return absl::OkStatus();
  }
  int max_rows() const override { return model_->max_rows(); }

 private:
  const std::unique_ptr<model::LanguageModel> model_;
  const std::atomic<bool>& lost_;
};

// As the target's main function has it. Requests go on at the other target, at once: streams end.
TEST_F(FailureTest, TargetLosesItsDeviceAndEnds) {
  std::atomic<bool> lost = false;
  target_service::Options options;
  options.measure = absl::ZeroDuration();
  options.tokenizer_id = LoadTokenizer(DemoTarget())->content_id();
  target_service::CpuEngineOptions engine_options;
  engine_options.vocabulary_size = LoadTokenizer(DemoTarget())->vocabulary_size();
  auto engine = target_service::CpuEngine::Create(
      engine_options, std::make_unique<LosesItsDevice>(LoadModel(DemoTarget()), lost));
  ASSERT_TRUE(engine.ok()) << engine.status();
  auto service = target_service::Service::Create(options, *std::move(engine));
  ASSERT_TRUE(service.ok()) << service.status();
  const ScratchFolder folder;
  transport::ServerFlags flags;
  flags.listen = "127.0.0.1:0";
  flags.port_file = folder.path() + "/port";
  absl::Status ended;
  std::thread process(
      [&] { ended = serving::Serve(**service, "tandem.internal.v1.Target", flags, [] {}); });
  ASSERT_TRUE(WaitUntil([&] { return Exists(flags.port_file); }));

  ProcessCluster cluster;
  ProcessCluster::Options peers;
  const std::string failing = "127.0.0.1:" + std::to_string(std::stoi(ReadFile(flags.port_file)));
  peers.target_address = failing + "," + cluster.target_address();
  cluster.StartOrchestrator(peers);
  const v1::GenerateRequest request = GreedyRequest(Prompt(), 100, 4);
  const std::vector<uint32_t> expected(Expected().begin(), Expected().begin() + 100);
  uint32_t replays = 0;
  EXPECT_TRUE(WaitUntil([&] {  // until one began at that target
    lost = false;
    const Reply reply = Send(cluster.channel(), request, Once([&] { lost = true; }));
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.ids, expected);
    replays += reply.record().target_replays();
    return replays > 0;
  }));
  process.join();
  alarm(0);  // as the process would end
  EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(ended.message().find("(700)"), std::string::npos) << ended;
  EXPECT_EQ(Send(cluster.channel(), request).ids, expected);
}

// What a broken stream held lingers at the target. Each request finds its own again, so nothing of
// it is computed twice. With and without a seed, which decides what is drawn from it.
TEST_F(FailureTest, WhatTheTargetHoldsIsNotComputedAgain) {
  constexpr uint32_t kRequests = 6;
  // In flight when the stream breaks: the row of the last committed token, computed for a verdict
  // that nobody reads, and again.
  constexpr uint64_t kRowsACut = 2;
  std::unique_ptr<netproxy::NetProxy> proxy;  // outlives the cluster's channels
  ClusterOptions options = DemoOptions();
  options.linger = absl::Minutes(1);
  options.target_proxy = [&proxy](const std::string& address) {
    proxy = *netproxy::NetProxy::Start(address);
    return proxy->address();
  };
  InProcessCluster cluster(std::move(options));
  // Some have ended before: counts of old and new streams differ.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Send(cluster.channel(), GreedyRequest(Prompt(), 2, 0)).status.ok());
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
  const std::vector<Reply> expected = SendAll(cluster.channel(), requests, kRequests);
  ASSERT_TRUE(cluster.AllFreed());

  const uint64_t before = cluster.target_rows();
  std::vector<Reply> replies;
  std::thread sender([&] { replies = SendAll(cluster.channel(), requests, kRequests); });
  // All prompts are read, and the texts are well under way.
  const uint64_t prompts = kRequests * requests[0].ids().ids_size();
  EXPECT_TRUE(
      WaitUntil([&] { return cluster.target_rows() - before >= prompts + kRequests * kThen; }));
  proxy->Reset();
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
  const uint64_t computed = cluster.target_rows() - before;
  EXPECT_LE(computed, needed + allowed);
  EXPECT_GE(computed, needed);
  EXPECT_TRUE(cluster.AllFreed());
}

}  // namespace
}  // namespace tandem::testing
