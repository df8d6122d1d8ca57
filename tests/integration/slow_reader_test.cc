// A reader that takes its time over the real transport: its request pauses, whatever it asked for,
// and goes on when it reads again.
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/held_call.h"
#include "tests/support/scrape.h"
#include "tests/support/table_model.h"
#include "tests/support/wait.h"

namespace tandem::testing::slow_reader_test {
namespace {

constexpr uint32_t kSamples = 8;
constexpr uint32_t kTokens = 700;

// Their rounds are more messages than a stream may have waiting.
static_assert(kSamples * kTokens > 4096);

TEST(SlowReader, OfRoundRecordsPausesItsRequestAndGetsThemAll) {
  ClusterOptions options;
  options.target_model = std::make_unique<TableModel>(
      TableModelOptions{.vocabulary_size = 5, .seed = 3, .context_length = 1024});
  options.tokenizer = LettersTokenizer(5);
  InProcessCluster cluster(std::move(options));
  const auto rounds = [&] {
    const absl::StatusOr<Scrape> scrape = ParseMetrics(cluster.orchestrator().MetricsText());
    return scrape.ok() ? scrape->Value("tandem:rounds_total") : -1;
  };
  v1::GenerateRequest request;
  request.mutable_ids()->add_ids(0);
  request.set_samples(kSamples);
  request.set_max_tokens(kTokens);
  request.set_seed(7);
  request.set_round_records(true);
  request.mutable_speculation()->set_fixed(0);
  HeldCall call(NarrowChannel(cluster.port(), 4096), request, {.read_first = 1});
  ASSERT_TRUE(WaitUntil([&] {
    const double before = rounds();
    absl::SleepFor(absl::Milliseconds(200));
    return before > 0 && rounds() == before;
  }));
  EXPECT_EQ(cluster.orchestrator().active_requests(), 1u) << "it waits for its reader";
  EXPECT_LT(rounds(), kSamples * kTokens);
  const Reply& reply = call.Wait();
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  ASSERT_EQ(reply.samples.size(), kSamples);
  for (const SampleReply& sample : reply.samples) EXPECT_EQ(sample.ids.size(), kTokens);
  EXPECT_EQ(reply.rounds.size(), kSamples * kTokens);
  EXPECT_TRUE(cluster.AllFreed());
}

}  // namespace
}  // namespace tandem::testing::slow_reader_test
