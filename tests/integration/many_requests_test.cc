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

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/held_call.h"
#include "tests/integration/many_requests.h"
#include "tests/integration/requests.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;

TEST(ManyRequests, SixtyFourAtOnceGiveTheIdsThatEachGivesAlone) {
  CountedCluster many;
  InProcessCluster& cluster = *many.cluster;
  const std::vector<v1::GenerateRequest> requests = MixedRequests(cluster.tokenizer(), 64);
  const std::vector<Reply> replies = SendAll(cluster.channel(), requests, 64);

  const std::unique_ptr<model::LanguageModel> alone = LoadModel(DemoTarget());
  uint64_t rounds = 0;
  uint64_t sequences = 0;
  uint64_t rows = 0;
  uint64_t accepted = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(replies[i].status.ok()) << replies[i].status;
    EXPECT_EQ(replies[i].ids, GreedyAlone(*alone, PromptOf(requests[i]), requests[i].max_tokens(),
                                          cluster.tokenizer().vocabulary_size()));
    const v1::AcceptanceRecord& record = replies[i].record();
    rounds += record.rounds();
    sequences += record.batch_sequences();
    rows += record.batch_rows();
    accepted += record.accepted_tokens();
    EXPECT_GE(record.batch_sequences(), record.rounds());
    EXPECT_GE(record.batch_rows(), record.batch_sequences());
  }
  EXPECT_GT(accepted, 0u) << "no draft took part: this would show nothing";
  const double mean_batch = static_cast<double>(sequences) / static_cast<double>(rounds);
  EXPECT_GT(mean_batch, 2.0);
  RecordProperty("mean_batch", absl::StrCat(mean_batch));
  std::printf("mean batch %.1f sequences, %.1f rows; %d target caches at once\n", mean_batch,
              static_cast<double>(rows) / static_cast<double>(rounds),
              many.target_caches.max_live.load());
  many.ExpectNothingHeld();
}

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

TEST(ManyRequests, AClientThatDoesNotReadStallsNobodyAndGetsItsTextLater) {
  ClusterOptions options = DemoOptions();
  options.loop.max_undelivered_tokens = 32;
  options.loop.close_after = absl::Milliseconds(50);
  CountedCluster many(std::move(options));
  InProcessCluster& cluster = *many.cluster;
  const v1::GenerateRequest long_one = GreedyRequest({263, 793, 286}, 900, 4);
  HeldCall slow(NarrowChannel(cluster.port(), 512), long_one, {.read_first = 2});
  ASSERT_TRUE(WaitUntil([&] { return slow.started(); }));

  const std::vector<v1::GenerateRequest> requests = MixedRequests(cluster.tokenizer(), 8);
  const std::vector<Reply> others = SendAll(cluster.channel(), requests, 8);
  const std::unique_ptr<model::LanguageModel> alone = LoadModel(DemoTarget());
  const uint32_t vocabulary_size = cluster.tokenizer().vocabulary_size();
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(others[i].status.ok()) << others[i].status;
    EXPECT_EQ(others[i].ids, GreedyAlone(*alone, PromptOf(requests[i]), requests[i].max_tokens(),
                                         vocabulary_size));
  }
  // It stands still in mid-text, and holds nothing at the services meanwhile.
  EXPECT_TRUE(cluster.AllFreed());
  EXPECT_EQ(cluster.orchestrator().active_requests(), 1u);
  EXPECT_FALSE(slow.done());

  const Reply& reply = slow.Wait();  // reads on
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  const std::vector<uint32_t> whole =
      GreedyAlone(*alone, PromptOf(long_one), long_one.max_tokens(), vocabulary_size);
  EXPECT_EQ(reply.ids, whole);
  auto text = cluster.tokenizer().Decode(whole);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr(reply.text));
  EXPECT_GT(reply.text.size(), text->size() / 2);
  EXPECT_GE(reply.record().target_replays(), 1u) << "its sequences were filled again";
  many.ExpectNothingHeld();
}

}  // namespace
}  // namespace tandem::testing
