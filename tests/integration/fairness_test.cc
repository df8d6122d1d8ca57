// One request of one orchestrator beside 64 of another's, on a target whose pass takes 8 ms: it
// waits for at most the pass that runs when it asks, and its text is the same.
#include "tests/integration/fairness.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/front.h"

namespace tandem::testing {
namespace {

constexpr uint32_t kPassRounds = 16;  // of the crowd's 64: a round that is not served first waits

// Of a usual round: the passes of the target from the one that decided the round before. 1: the
// very next one. The pass that runs when the round asks makes 2.
uint64_t UsualPasses(const Reply& reply) {
  std::vector<uint64_t> passes;
  for (int i = 1; i < static_cast<int>(reply.rounds.size()); ++i) {
    passes.push_back(reply.rounds[i].pass_id() - reply.rounds[i - 1].pass_id());
  }
  const auto middle = passes.begin() + static_cast<std::ptrdiff_t>(passes.size() / 2);
  std::nth_element(passes.begin(), middle, passes.end());
  return *middle;
}

void ExpectFair(uint32_t draft_tokens) {
  ClusterOptions pair = DeviceLikePair();
  pair.pass_rows = kPassRounds * (draft_tokens + 1);
  InProcessCluster cluster(std::move(pair));
  Front front(FrontOptions(cluster));
  FairnessOptions options;
  options.alternations = 1;
  options.lone = GreedyRequest({0, 1, 2}, draft_tokens == 0 ? 60 : 120, draft_tokens);
  options.lone.set_round_records(true);
  options.member = GreedyRequest({3, 4}, 400, draft_tokens);
  const FairnessReport report = MeasureFairness(cluster, front, options);
  ASSERT_EQ(report.lone.size(), 2u);
  const Reply& alone = report.lone[0];
  const Reply& beside = report.lone[1];
  EXPECT_EQ(beside.ids, alone.ids);
  EXPECT_EQ(beside.ids.size(), options.lone.max_tokens());
  EXPECT_EQ(UsualPasses(alone), 1u);
  // While its block is drafted a pass may go by.
  EXPECT_LE(UsualPasses(beside), draft_tokens == 0 ? 2u : 3u);
  // Nobody is fair who serves the lone one alone.
  EXPECT_GT(beside.record().batch_sequences(), kPassRounds / 2 * beside.record().rounds());
  EXPECT_EQ(report.alternations[0].crowd_failures, 0u);
}

TEST(FairnessTest, ALoneRequestBesideACrowdThatSpeculates) { ExpectFair(4); }

TEST(FairnessTest, ALoneRequestBesideACrowdWithoutDrafts) { ExpectFair(0); }

}  // namespace
}  // namespace tandem::testing
