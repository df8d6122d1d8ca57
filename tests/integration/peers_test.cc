// One orchestrator over two targets and two drafts, each a process: the load is spread, and the
// loss of any of them changes no id.
#include <grpcpp/grpcpp.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/integration/alone.h"
#include "tests/integration/models.h"
#include "tests/integration/process_cluster.h"
#include "tests/integration/requests.h"
#include "tests/support/wait.h"

namespace tandem::testing::peers_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint32_t kTokens = 300;
constexpr size_t kRequests = 8;
// Something happens to a peer when this many tokens of the first request have come.
constexpr size_t kThen = 40;

const std::vector<uint32_t>& Prompt() {
  static const auto& prompt = *new std::vector<uint32_t>(
      *LoadTokenizer(DemoTarget())->Encode("The old captain looked at the sea and said"));
  return prompt;
}

// Every other request is greedy, every other one drawn by rule coupled, with a penalty.
AloneOptions OptionsOf(size_t request) {
  AloneOptions options;
  options.max_tokens = kTokens;
  options.vocabulary_size = LoadTokenizer(DemoTarget())->vocabulary_size();
  options.seed = 8;
  options.sampling.temperature = request % 2 == 0 ? 0 : 0.8;
  if (request % 2 == 1) options.sampling.frequency_penalty = 0.3;
  return options;
}

const std::vector<uint32_t>& Expected(size_t request) {
  static const auto& expected = *new std::array<std::vector<uint32_t>, 2>{
      PlainAlone(*LoadModel(DemoTarget()), Prompt(), OptionsOf(0)),
      PlainAlone(*LoadModel(DemoTarget()), Prompt(), OptionsOf(1))};
  return expected[request % 2];
}

class PeersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(Expected(0).size(), kTokens);
    ASSERT_EQ(Expected(1).size(), kTokens);
    ASSERT_NE(Expected(0), Expected(1));
    ProcessCluster::Options options;
    options.target_address = absl::StrCat(first_.target_address(), ",", second_.target_address());
    options.draft_address = absl::StrCat(first_.draft_address(), ",", second_.draft_address());
    first_.StartOrchestrator(options);
    // Drafts, too, and no request has used them yet.
    for (int peer = 0; peer < 4; ++peer) {
      ASSERT_TRUE(WaitUntil([&] { return Describe(peer).ready(); })) << peer;
    }
    EXPECT_THAT(Describe(3).welcome().drafters(), Not(IsEmpty()));
  }

  // 0, 1: the targets; 2, 3: the drafts.
  v1::Peer Describe(int peer) const {
    grpc::ClientContext context;
    v1::DescribeReply reply;
    const grpc::Status status = v1::Generation::NewStub(first_.channel())
                                    ->Describe(&context, v1::DescribeRequest(), &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(reply.peers_size(), 4);
    return peer < reply.peers_size() ? reply.peers(peer) : v1::Peer();
  }

  // Many requests at once; `what` happens in the middle of them.
  std::vector<Reply> SendWhile(std::function<void()> what) {
    std::vector<v1::GenerateRequest> requests;
    for (size_t i = 0; i < kRequests; ++i) {
      requests.push_back(CoupledRequest(Prompt(), OptionsOf(i), 4));
    }
    std::vector<Reply> replies;
    std::thread sender([&] {
      replies = SendAll(first_.channel(), absl::MakeConstSpan(requests).subspan(1), kRequests);
    });
    bool done = false;
    Reply own = Send(first_.channel(), requests[0], [&](const Reply& so_far) {
      if (done || so_far.ids.size() < kThen) return;
      done = true;
      what();
    });
    sender.join();
    replies.insert(replies.begin(), std::move(own));
    for (size_t i = 0; i < replies.size(); ++i) {
      EXPECT_TRUE(replies[i].status.ok()) << replies[i].status;
      EXPECT_EQ(replies[i].ids, Expected(i)) << i;
      EXPECT_TRUE(replies[i].record().exact());
    }
    return replies;
  }

  ProcessCluster second_;  // its target and its draft only
  ProcessCluster first_;
};

TEST_F(PeersTest, ATargetThatIsKilledChangesNoId) {
  uint32_t concerned = 0;
  const std::vector<Reply> replies = SendWhile([&] {
    concerned = Describe(0).sequences();
    first_.target().Kill();
  });
  uint32_t replays = 0;
  for (const Reply& reply : replies) replays += reply.record().target_replays();
  EXPECT_GE(concerned, 1u);
  EXPECT_GE(replays, 1u);
  EXPECT_FALSE(Describe(0).ready());
  EXPECT_THAT(Describe(0).problem(), HasSubstr(first_.target_address()));
  EXPECT_TRUE(Describe(1).ready());
  // The other one alone serves on; the lost one is of use again once it is back.
  SendWhile([&] { first_.RestartTarget(); });
  EXPECT_TRUE(WaitUntil([this] { return Describe(0).ready(); }));
  uint32_t back = 0;
  SendWhile([&] { back = Describe(0).sequences(); });
  EXPECT_GE(back, 1u);
}

}  // namespace
}  // namespace tandem::testing::peers_test
