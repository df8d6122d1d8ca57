// Two orchestrators of one --client-id at one target: as replicas of one deployment have it.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/front.h"
#include "tests/integration/models.h"
#include "tests/integration/requests.h"
#include "tests/support/log_lines.h"
#include "tests/support/table_model.h"

namespace tandem::testing {
namespace {

using ::testing::SizeIs;

constexpr uint32_t kLetters = 12;

TEST(SharedClientId, BothServeAndFenceEachOtherOnce) {
  const LogRecorder log;
  TableModelOptions table;
  table.vocabulary_size = kLetters;
  ClusterOptions options;
  options.target_model = std::make_unique<TableModel>(table);
  options.tokenizer = LettersTokenizer(kLetters);
  InProcessCluster cluster(std::move(options));
  orchestrator::Options shared = FrontOptions(cluster);
  shared.client_id = "front";
  const Front first(shared);
  const Front second(shared);
  const std::vector<uint32_t> prompt = {1, 2, 3};
  // A fight has a turn every few tens of milliseconds.
  for (int i = 0; i < 20; ++i) {
    for (const Front* front : {&first, &second}) {
      const Reply reply = Send(front->channel(), GreedyRequest(prompt, 8, 0));
      EXPECT_TRUE(reply.status.ok()) << reply.status;
    }
    absl::SleepFor(absl::Milliseconds(50));
  }
  std::vector<LogLine> ups = log.Of("client_up");
  std::erase_if(ups, [](const LogLine& line) {
    return !absl::StartsWith(line.fields.at("client"), "front");
  });
  EXPECT_THAT(ups, SizeIs(3)) << "the first, the second, and the first under its own name";
  EXPECT_THAT(log.Of("client_id_shared"), SizeIs(1));
}

}  // namespace
}  // namespace tandem::testing
