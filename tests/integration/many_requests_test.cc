// Many requests at one orchestrator: they share the target's passes and change nothing in each
// other; what ends in mid-stream leaves nothing behind; one that does not read stalls nobody.
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/held_call.h"
#include "tests/integration/many_requests.h"
#include "tests/integration/requests.h"

namespace tandem::testing {
namespace {

// Half of them are cancelled in mid-stream, each after another number of deltas.
void SendAndCancelHalf(const InProcessCluster& cluster, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::unique_ptr<HeldCall>> calls;
  for (v1::GenerateRequest& request : MixedRequests(cluster.tokenizer(), 64)) {
    HeldCallOptions options;
    if (calls.size() % 2 == 0) {
      request.set_max_tokens(400);  // so that it is surely in mid-stream
      options.cancel_after_deltas = 1 + random() % 12;
    }
    calls.push_back(std::make_unique<HeldCall>(cluster.channel(), std::move(request), options));
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const Reply& reply = calls[i]->Wait();
    const absl::StatusCode code = reply.status.code();
    EXPECT_EQ(code, i % 2 == 0 ? absl::StatusCode::kCancelled : absl::StatusCode::kOk) << i;
    EXPECT_LT(reply.ids.size(), 400u) << i;
  }
}

TEST(ManyRequests, ThoseThatAreCancelledInMidStreamLeaveNothingBehind) {
  CountedCluster many;
  // Pools, caches and arenas fill to what they will hold.
  for (uint32_t round = 0; round < 2; ++round) SendAndCancelHalf(*many.cluster, round);
  many.ExpectNothingHeld();
  // What stays behind grows the heap every time; what a thread's cache happens to hold does not.
  int64_t min_growth = std::numeric_limits<int64_t>::max();
  int64_t before = static_cast<int64_t>(mallinfo2().uordblks);
  for (uint32_t round = 2; round < 6; ++round) {
    SendAndCancelHalf(*many.cluster, round);
    many.ExpectNothingHeld();
    const auto now = static_cast<int64_t>(mallinfo2().uordblks);
    std::printf("live heap: %lld bytes, %+lld\n", static_cast<long long>(now),
                static_cast<long long>(now - before));
    min_growth = std::min(min_growth, now - before);
    before = now;
  }
  EXPECT_LT(min_growth, 64 * 1024) << "bytes; that is 1 KiB a request, less than any one holds";
  EXPECT_GE(many.target_caches.made, 4 * 64);
}

TEST(ManyRequests, MoreThanThePlacesAndTheSlotsAllFinish) {
  ClusterOptions options = DemoOptions();
  options.max_active_requests = 6;
  options.max_sequences = 3;
  CountedCluster many(std::move(options));
  const std::vector<v1::GenerateRequest> requests = MixedRequests(many.cluster->tokenizer(), 24);
  const std::vector<Reply> replies = SendAll(many.cluster->channel(), requests, 24);
  const std::unique_ptr<model::LanguageModel> alone = LoadModel(DemoTarget());
  int waited = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(replies[i].status.ok()) << replies[i].status;
    EXPECT_EQ(replies[i].ids, GreedyAlone(*alone, PromptOf(requests[i]), requests[i].max_tokens(),
                                          many.cluster->tokenizer().vocabulary_size()))
        << i;
    waited += replies[i].last.timing().admission_us() > 1000 ? 1 : 0;
  }
  EXPECT_GE(waited, 10);
  EXPECT_LE(many.target_caches.max_live, 3);
  many.ExpectNothingHeld();
}

}  // namespace
}  // namespace tandem::testing
