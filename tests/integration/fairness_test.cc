// One request of one orchestrator beside 64 of another's, on a target whose pass takes 8 ms: it waits
// for at most the pass that runs when it asks, and its text is the same.
#include "tests/integration/fairness.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/front.h"

namespace tandem::testing {
namespace {

// Of a round beside the crowd to one alone. The pass that it waits for makes 2, a second one would make
// 3. What this machine's cores do for 64 others lies between.
constexpr double kMaxRatio = 2.5;
constexpr int kMaxReports = 3;  // of four alternations each

void ExpectFair(uint32_t draft_tokens) {
  InProcessCluster cluster(DeviceLikePair());
  Front front(FrontOptions(cluster));
  FairnessOptions options;
  options.alternations = 4;
  options.lone = GreedyRequest({0, 1, 2}, draft_tokens == 0 ? 60 : 120, draft_tokens);
  options.member = GreedyRequest({3, 4}, 400, draft_tokens);
  // What else the machine does makes rounds longer, never shorter: the best of each is compared, and
  // a machine that is busy gets more tries.
  double alone = std::numeric_limits<double>::infinity();
  double beside = alone;
  for (int i = 0; i < kMaxReports && !(beside / alone <= kMaxRatio); ++i) {
    const FairnessReport report = MeasureFairness(cluster, front, options);
    std::printf("%s", ToString(report).c_str());
    for (const Reply& reply : report.lone) {
      EXPECT_EQ(reply.ids, report.lone[0].ids);  // the first of them was alone
      EXPECT_EQ(reply.ids.size(), options.lone.max_tokens());
    }
    for (const Alternation& one : report.alternations) {
      alone = std::min(alone, one.alone.median_ms);
      beside = std::min(beside, one.beside.median_ms);
      // Nobody is fair who serves the lone one alone.
      EXPECT_GT(one.crowd_tokens_per_second, 0);
      EXPECT_EQ(one.crowd_failures, 0u);
    }
  }
  EXPECT_LE(beside / alone, kMaxRatio);
}

TEST(FairnessTest, ALoneRequestBesideACrowdThatSpeculates) { ExpectFair(4); }

TEST(FairnessTest, ALoneRequestBesideACrowdWithoutDrafts) { ExpectFair(0); }

}  // namespace
}  // namespace tandem::testing
