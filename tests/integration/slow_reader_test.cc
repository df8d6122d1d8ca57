// A reader that takes its time over the real transport: its request pauses, whatever it asked for,
// holds up no other, and goes on when it reads again.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/held_call.h"
#include "tests/support/table_model.h"
#include "tests/support/wait.h"

namespace tandem::testing::slow_reader_test {
namespace {

constexpr uint32_t kSamples = 8;
constexpr uint32_t kTokens = 700;

// Their rounds are more messages than a stream may have waiting.
static_assert(kSamples * kTokens > 4096);

v1::GenerateRequest ManyRecords(uint64_t seed) {
  v1::GenerateRequest request;
  request.mutable_ids()->add_ids(0);
  request.set_samples(4);
  request.set_max_tokens(kTokens);
  request.set_seed(seed);
  request.set_round_records(true);
  request.mutable_speculation()->set_fixed(0);
  return request;
}

// They want all places of the orchestrator and all slots of the target, and nobody reads them. A
// sequence that waits for its reader would keep its slot for an hour.
TEST(SlowReader, ThatTakesAllPlacesAndSlotsHoldsUpNobody) {
  ClusterOptions options;
  options.target_model = std::make_unique<TableModel>(
      TableModelOptions{.vocabulary_size = 5, .seed = 3, .context_length = 1024});
  options.tokenizer = LettersTokenizer(5);
  options.max_sequences = 4;
  options.max_active_requests = 2;
  options.loop.max_undelivered_tokens = 64;
  options.loop.close_after = absl::Hours(1);
  options.loop.abort_after = absl::Hours(1);
  InProcessCluster cluster(std::move(options));
  std::vector<std::unique_ptr<HeldCall>> unread;
  const auto deaf = NarrowChannel(cluster.port(), 4096);
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    unread.push_back(
        std::make_unique<HeldCall>(deaf, ManyRecords(seed), HeldCallOptions{.read_first = 1}));
  }
  // All of them begin, though there are places for two.
  ASSERT_TRUE(WaitUntil([&] { return cluster.orchestrator().active_requests() == unread.size(); }));
  const auto channel = NarrowChannel(cluster.port(), 1 << 20);
  for (uint64_t seed = 11; seed <= 13; ++seed) {
    const Reply reply = Send(channel, ManyRecords(seed));
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.samples.size(), 4u);
  }
  for (const auto& call : unread) EXPECT_FALSE(call->done()) << "it waits for its reader";
  for (uint64_t seed = 1; seed <= unread.size(); ++seed) {
    const Reply& reply = unread[seed - 1]->Wait();
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    const Reply again = Send(channel, ManyRecords(seed));
    ASSERT_EQ(reply.samples.size(), again.samples.size());
    for (size_t i = 0; i < again.samples.size(); ++i) {
      EXPECT_EQ(reply.samples[i].ids, again.samples[i].ids) << seed << ", " << i;
    }
  }
  EXPECT_TRUE(cluster.AllFreed());
}

}  // namespace
}  // namespace tandem::testing::slow_reader_test
