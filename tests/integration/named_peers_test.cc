// One orchestrator and peers that it finds by name, each a process: every address is a peer, one
// that comes is used, one that goes is forgotten, and no id of any text changes by it.
#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/transport/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/deploy/names.h"
#include "tests/integration/alone.h"
#include "tests/integration/models.h"
#include "tests/integration/process_cluster.h"
#include "tests/integration/requests.h"
#include "tests/support/wait.h"

namespace tandem::testing::named_peers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kRequests = 6;
constexpr size_t kThen = 40;  // tokens of the first request: something happens then

const std::vector<uint32_t>& Prompt() {
  static const auto& prompt = *new std::vector<uint32_t>(
      *LoadTokenizer(DemoTarget())->Encode("The old captain looked at the sea and said"));
  return prompt;
}

AloneOptions Drawn() {
  AloneOptions options;
  options.max_tokens = 300;
  options.vocabulary_size = LoadTokenizer(DemoTarget())->vocabulary_size();
  options.seed = 8;
  options.sampling.temperature = 0.8;
  return options;
}

const std::vector<uint32_t>& Expected() {
  static const auto& expected =
      *new std::vector<uint32_t>(PlainAlone(*LoadModel(DemoTarget()), Prompt(), Drawn()));
  return expected;
}

// Processes of one kind, on addresses of their own and one port, as pods are.
class Replicas {
 public:
  Replicas(std::string binary, const std::string& model)
      : binary_(std::move(binary)), model_(model) {}

  void Start(const std::string& host) {
    processes_[host] = std::make_unique<Process>(
        binary_,
        std::vector<std::string>{absl::StrCat("--listen=", host, ":", port_),
                                 absl::StrCat("--model=", model_)},
        "port_file");
    port_ = processes_[host]->WaitForPort();
  }
  Process& at(const std::string& host) { return *processes_.at(host); }
  int port() const { return port_; }

 private:
  const std::string binary_;
  const std::string model_;
  int port_ = 0;  // the first one's choice
  std::map<std::string, std::unique_ptr<Process>> processes_;
};

class NamedPeersTest : public ::testing::Test {
 protected:
  void StartOrchestrator(std::vector<std::string> flags = {}) {
    flags.push_back("--listen=127.0.0.1:0");
    flags.push_back(absl::StrCat("--tokenizer=", DemoTarget()));
    flags.push_back(absl::StrCat("--target=targets:", targets_.port()));
    flags.push_back(absl::StrCat("--draft=drafts:", drafts_.port()));
    flags.push_back("--resolve-every=200ms");
    orchestrator_ = std::make_unique<Process>("tandem-orchestrator", std::move(flags), "port_file");
    channel_ = transport::MakeChannel(absl::StrCat("127.0.0.1:", orchestrator_->WaitForPort()));
    ASSERT_TRUE(WaitUntil([&] { return IsServing(channel_); })) << orchestrator_->Output();
  }

  // By address, without the port.
  std::map<std::string, v1::Peer> Peers(v1::Peer::Role role) const {
    grpc::ClientContext context;
    v1::DescribeReply reply;
    const grpc::Status status =
        v1::Generation::NewStub(channel_)->Describe(&context, v1::DescribeRequest(), &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    std::map<std::string, v1::Peer> peers;
    for (const v1::Peer& peer : reply.peers()) {
      if (peer.role() == role) peers[peer.address().substr(0, peer.address().find(':'))] = peer;
    }
    return peers;
  }
  std::vector<std::string> Hosts(v1::Peer::Role role) const {
    std::vector<std::string> hosts;
    for (const auto& [host, peer] : Peers(role)) hosts.push_back(host);
    return hosts;
  }
  bool Ready(v1::Peer::Role role, const std::string& host) const {
    const auto peers = Peers(role);
    return peers.contains(host) && peers.at(host).ready();
  }

  // Several requests at once; `what` happens in the middle of them.
  std::vector<Reply> SendWhile(const std::function<void()>& what) {
    const v1::GenerateRequest request = CoupledRequest(Prompt(), Drawn(), 4);
    std::vector<Reply> replies;
    std::thread sender([&] {
      const std::vector<v1::GenerateRequest> others(kRequests - 1, request);
      replies = SendAll(channel_, others, kRequests);
    });
    bool done = false;
    Reply own = Send(channel_, request, [&](const Reply& so_far) {
      if (done || so_far.ids.size() < kThen) return;
      done = true;
      what();
    });
    sender.join();
    replies.push_back(std::move(own));
    for (const Reply& reply : replies) {
      EXPECT_TRUE(reply.status.ok()) << reply.status;
      EXPECT_EQ(reply.ids, Expected());
    }
    return replies;
  }
  // Whether a request comes to be there, sooner or later.
  bool IsUsed(v1::Peer::Role role, const std::string& host) {
    return WaitUntil([&] {
      uint32_t sequences = 0;
      SendWhile([&] {
        const auto peers = Peers(role);
        if (peers.contains(host)) sequences = peers.at(host).sequences();
      });
      return sequences > 0;
    });
  }

  static constexpr v1::Peer::Role kTarget = v1::Peer::ROLE_TARGET;
  static constexpr v1::Peer::Role kDraft = v1::Peer::ROLE_DRAFT;

  Names names_;  // before all processes
  Replicas targets_{"tandem-target", DemoTarget()};
  Replicas drafts_{"tandem-draft", DemoDraft()};
  std::unique_ptr<Process> orchestrator_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(NamedPeersTest, EachAddressIsAPeerWhoComesIsUsedAndWhoGoesIsForgotten) {
  targets_.Start("127.0.0.2");
  targets_.Start("127.0.0.3");
  drafts_.Start("127.0.0.2");
  names_.Set("targets", {"127.0.0.2", "127.0.0.3"});
  names_.Set("drafts", {});
  StartOrchestrator();
  EXPECT_THAT(Hosts(kTarget), ElementsAre("127.0.0.2", "127.0.0.3"));
  EXPECT_EQ(Peers(kTarget)["127.0.0.2"].name(), absl::StrCat("targets:", targets_.port()));
  EXPECT_TRUE(Hosts(kDraft).empty());
  for (const Reply& reply : SendWhile([] {})) EXPECT_EQ(reply.record().draft_tokens(), 0u);
  EXPECT_TRUE(IsUsed(kTarget, "127.0.0.2"));
  EXPECT_TRUE(IsUsed(kTarget, "127.0.0.3"));
  EXPECT_THAT(orchestrator_->Output(), HasSubstr("name_lost name=drafts:"));

  // The first draft there is, and one more target.
  names_.Set("drafts", {"127.0.0.2"});
  targets_.Start("127.0.0.4");
  SendWhile([&] { names_.Set("targets", {"127.0.0.2", "127.0.0.3", "127.0.0.4"}); });
  EXPECT_TRUE(IsUsed(kDraft, "127.0.0.2"));
  EXPECT_TRUE(WaitUntil([&] { return Ready(kTarget, "127.0.0.4"); }));
  EXPECT_TRUE(IsUsed(kTarget, "127.0.0.4"));

  // Two leave in the middle of requests, which end there; then they are forgotten.
  SendWhile([&] { names_.Set("targets", {"127.0.0.4"}); });
  EXPECT_TRUE(WaitUntil([&] { return Peers(kTarget).size() == 1; }));
  targets_.at("127.0.0.2").Kill();
  targets_.at("127.0.0.3").Kill();
  for (const Reply& reply : SendWhile([] {})) {
    EXPECT_EQ(reply.record().target_replays(), 0u);
    EXPECT_GT(reply.record().accepted_tokens(), 0u);
  }
  EXPECT_THAT(Hosts(kTarget), ElementsAre("127.0.0.4"));
}

// It takes what it is sent, and never answers; the target's own pause makes the silence long
// enough.
TEST_F(NamedPeersTest, AStalledDraftIsReplacedInMidRequest) {
  targets_.Start("127.0.0.2");
  drafts_.Start("127.0.0.2");
  drafts_.Start("127.0.0.3");
  names_.Set("targets", {"127.0.0.2"});
  names_.Set("drafts", {"127.0.0.2", "127.0.0.3"});
  StartOrchestrator({"--watchdog-min=60s"});
  ASSERT_TRUE(IsUsed(kDraft, "127.0.0.2"));
  ASSERT_TRUE(IsUsed(kDraft, "127.0.0.3"));
  std::string stalled;
  bool paused = false;
  const Reply reply =
      Send(channel_, CoupledRequest(Prompt(), Drawn(), 4), [&](const Reply& so_far) {
        if (stalled.empty() && so_far.ids.size() >= kThen) {
          for (const auto& [host, peer] : Peers(kDraft)) {
            if (peer.sequences() > 0) stalled = host;
          }
          ASSERT_FALSE(stalled.empty());
          drafts_.at(stalled).Signal(SIGSTOP);
        } else if (!paused && so_far.ids.size() >= 2 * kThen) {
          paused = true;
          targets_.at("127.0.0.2").Signal(SIGSTOP);
          absl::SleepFor(absl::Milliseconds(2500));
          targets_.at("127.0.0.2").Signal(SIGCONT);
        }
      });
  ASSERT_TRUE(paused);
  EXPECT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.ids, Expected());
  EXPECT_EQ(reply.record().draft_reconnections(), 1u) << reply.record().DebugString();
  EXPECT_GE(Peers(kDraft)[stalled].ejections(), 1u);
  EXPECT_THAT(orchestrator_->Output(), HasSubstr(absl::StrCat("peer_ejected peer=", stalled)));
}

}  // namespace
}  // namespace tandem::testing::named_peers_test
