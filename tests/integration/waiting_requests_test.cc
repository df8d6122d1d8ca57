// Requests that cannot run yet wait in order, are told why when they wait in vain, and leave when
// they are cancelled; one that never reads gives its place up.
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/held_call.h"
#include "tests/integration/many_requests.h"
#include "tests/integration/requests.h"
#include "tests/support/timed_model.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A request that runs, and so holds its place, until told.
class Holder {
 public:
  explicit Holder(const InProcessCluster& cluster)
      : call_(cluster.channel(), GreedyRequest({263, 793, 286}, 900, 0)) {
    TANDEM_CHECK(WaitUntil([&] { return call_.started(); }));
  }
  void End() { call_.Cancel(); }

 private:
  HeldCall call_;
};

ClusterOptions OnePlace(uint32_t max_waiting) {
  ClusterOptions options = DemoOptions();
  options.max_active_requests = 1;
  options.max_waiting_requests = max_waiting;
  // A holder's 900 passes take longer than any of these tests.
  options.target_model = std::make_unique<TimedModel>(std::move(options.target_model),
                                                      PassCost{.pass = absl::Milliseconds(20)});
  return options;
}

TEST(WaitingRequests, HigherPrioritiesAreAdmittedFirstThenTheOrderOfArrival) {
  InProcessCluster cluster(OnePlace(16));
  Holder holder(cluster);
  concurrency::Mutex mutex;
  std::vector<int> admitted;
  std::vector<std::unique_ptr<HeldCall>> calls;
  for (uint32_t priority : {0, 5, 10, 0, 5, 10}) {
    const int index = static_cast<int>(calls.size());
    v1::GenerateRequest request = GreedyRequest({263, 793, 286}, 8, 2);
    request.set_priority(priority);
    HeldCallOptions options;
    options.on_started = [&, index] {
      concurrency::MutexLock lock(mutex);
      admitted.push_back(index);
    };
    calls.push_back(std::make_unique<HeldCall>(cluster.channel(), request, options));
    ASSERT_TRUE(
        WaitUntil([&] { return cluster.orchestrator().waiting_requests() == calls.size(); }));
  }
  holder.End();
  for (const auto& call : calls) {
    const Reply& reply = call->Wait();
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.ids.size(), 8u);
    EXPECT_GT(reply.last.timing().admission_us(), 0u);
    EXPECT_LE(reply.last.timing().admission_us(), reply.last.timing().first_token_us());
  }
  EXPECT_THAT(admitted, ElementsAre(2, 5, 1, 4, 0, 3));
}

TEST(WaitingRequests, OneThatNeverReadsIsAbortedAndFreesItsPlace) {
  ClusterOptions options = OnePlace(4);
  options.loop.max_undelivered_tokens = 16;
  options.loop.close_after = absl::Milliseconds(20);
  options.loop.abort_after = absl::Milliseconds(200);
  CountedCluster many(std::move(options));
  InProcessCluster& cluster = *many.cluster;
  HeldCall deaf(NarrowChannel(cluster.port(), 64), GreedyRequest({263, 793, 286}, 900, 4),
                {.read_first = 1});
  ASSERT_TRUE(WaitUntil([&] { return deaf.started(); }));
  const Reply next = Send(cluster.channel(), GreedyRequest({263, 793, 286}, 8, 2));
  EXPECT_TRUE(next.status.ok()) << next.status;
  many.ExpectNothingHeld();
  const Reply& reply = deaf.Wait();
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(reply.status.message(), HasSubstr("the client did not read for 200ms"));
  EXPECT_LT(reply.ids.size(), 900u);
}

}  // namespace
}  // namespace tandem::testing
