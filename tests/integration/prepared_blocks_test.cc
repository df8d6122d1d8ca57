// Blocks that the draft prepares in advance, over the services: the same ids, and fewer waits for
// the draft.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/models.h"
#include "tests/integration/requests.h"
#include "tests/netproxy/netproxy.h"

namespace tandem::testing::prepared_blocks_test {
namespace {

// The draft is the target itself, so what is prepared is right wherever it comes in time.
class PreparedBlocks : public ::testing::TestWithParam<float> {
 protected:
  void SetUp() override { Start({}, {}); }

  // Proxies between orchestrator and its peers.
  using Proxy = std::function<std::string(const std::string& address)>;
  void Start(Proxy draft_proxy, Proxy target_proxy) {
    cluster_.reset();
    WriteTinyLlama(folder_.path(), 26, 1);
    ClusterOptions options;
    options.target_model = LoadModel(folder_.path());
    options.draft_model = LoadModel(folder_.path());
    options.tokenizer = LettersTokenizer(26);
    options.loop.draft_wait = options.loop.draft_wait_floor = absl::Seconds(20);
    options.draft_proxy = std::move(draft_proxy);
    options.target_proxy = std::move(target_proxy);
    cluster_.emplace(std::move(options));
  }

  static v1::GenerateRequest Request(uint64_t seed, float temperature, uint32_t draft_tokens,
                                     uint32_t prepare) {
    v1::GenerateRequest request;
    request.set_text("abcabcab");
    request.set_seed(seed);
    request.set_max_tokens(50);
    request.mutable_stop()->set_ignore_eos(true);
    request.mutable_sampling()->set_temperature(temperature);
    request.mutable_speculation()->set_fixed(draft_tokens);
    request.mutable_speculation()->set_prepare(prepare);
    return request;
  }

  // Rounds of the reply whose block was prepared and came in time.
  static uint32_t Used(const Reply& reply, bool chained) {
    uint32_t used = 0;
    for (const v1::CausedRounds& one : reply.record().prepared_rounds()) {
      if (one.cause() == "chained" || (!chained && one.cause() == "hit")) used += one.rounds();
    }
    return used;
  }

  ScratchFolder folder_;
  std::optional<InProcessCluster> cluster_;
};

TEST_P(PreparedBlocks, ChangeNoId) {
  std::vector<v1::GenerateRequest> requests;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    requests.push_back(Request(seed, GetParam(), /*draft_tokens=*/0, /*prepare=*/0));
    for (const uint32_t prepare : {1, 4, 16}) {
      requests.push_back(Request(seed, GetParam(), 3, prepare));
    }
    requests.push_back(Request(seed, GetParam(), 3, 16));
    requests.back().mutable_speculation()->set_auto_(true);
  }
  const std::vector<Reply> replies = SendAll(cluster_->channel(), requests, 4);
  uint32_t used = 0;
  for (size_t i = 0; i < replies.size(); ++i) {
    SCOPED_TRACE(requests[i].ShortDebugString());
    ASSERT_TRUE(replies[i].status.ok()) << replies[i].status;
    EXPECT_EQ(replies[i].ids, replies[i / 5 * 5].ids);
    EXPECT_EQ(replies[i].Rounds("draft-stale"), 0u);
    EXPECT_EQ(replies[i].Rounds("draft-invalid"), 0u);
    used += Used(replies[i], /*chained=*/false);
  }
  // How many come in time is the machine's affair.
  EXPECT_GT(used, 0u);
}

// Connections break again and again while blocks are being prepared, sent, held and gone on with.
TEST_P(PreparedBlocks, ChangeNoIdOverASlowNetworkThatBreaks) {
  std::vector<v1::GenerateRequest> requests;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    requests.push_back(Request(seed, GetParam(), 3, 16));
    requests.push_back(Request(seed, GetParam(), 3, 16));
    requests.back().mutable_speculation()->set_auto_(true);
  }
  std::vector<v1::GenerateRequest> plain;
  for (const v1::GenerateRequest& request : requests) {
    plain.push_back(request);
    plain.back().mutable_speculation()->set_fixed(0);
    plain.back().mutable_speculation()->clear_prepare();
  }
  const std::vector<Reply> alone = SendAll(cluster_->channel(), plain, 4);
  std::unique_ptr<netproxy::NetProxy> draft, target;
  const auto slow = [](std::unique_ptr<netproxy::NetProxy>& proxy, absl::Duration delay) {
    return [&proxy, delay](const std::string& address) {
      proxy = *netproxy::NetProxy::Start(address);
      proxy->SetDelay(delay);
      return proxy->address();
    };
  };
  Start(slow(draft, absl::Milliseconds(2)), slow(target, absl::Milliseconds(6)));
  uint32_t used = 0, chained = 0, reconnections = 0, replays = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    size_t breaks_at = 10;
    const Reply reply = Send(cluster_->channel(), requests[i], [&](const Reply& so_far) {
      if (so_far.ids.size() < breaks_at) return;
      (breaks_at % 20 == 10 ? draft : target)->Reset();
      breaks_at += 10;
    });
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.ids, alone[i].ids) << requests[i].ShortDebugString();
    reconnections += reply.record().draft_reconnections();
    replays += reply.record().target_replays();
    used += Used(reply, /*chained=*/false);
    chained += Used(reply, /*chained=*/true);
  }
  EXPECT_GT(reconnections, 0u);
  EXPECT_GT(replays, 0u);
  EXPECT_GT(used, 0u);
  EXPECT_GT(chained, 0u) << "the way to the target is the longer one";
  cluster_.reset();  // before its proxies
}

INSTANTIATE_TEST_SUITE_P(Temperatures, PreparedBlocks, ::testing::Values(0.0f, 0.8f),
                         [](const auto& test) { return test.param == 0 ? "greedy" : "coupled"; });

}  // namespace
}  // namespace tandem::testing::prepared_blocks_test
