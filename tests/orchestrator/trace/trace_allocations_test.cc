// A request that is not traced allocates what one does that nobody watches: not a byte more, in any
// round.
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/request/request_observer.h"
#include "orchestrator/trace/request_trace.h"
#include "tests/orchestrator/harness/loop_harness.h"
#include "tests/support/allocations.h"
#include "tests/support/fake_tracer.h"

namespace tandem::orchestrator {
namespace {

// Of a whole request of drafted and plain rounds: from its start to its end.
int64_t AllocationsOf(const std::vector<WatchRequest>& watchers, bool traced = false) {
  std::unique_ptr<RequestObserver> request;
  HarnessOptions options;
  options.watch = [&](const testing::FakeClock& clock) {
    request = WatchAll(watchers, {clock.Now(), ""});
    std::vector<std::unique_ptr<RoundObserver>> observers;
    observers.push_back(request->WatchSample(0));
    return JoinObservers(std::move(observers));
  };
  LoopHarness harness(SmallRequest(4), options);
  harness.target.on_step = [&](const VerifyStep& step, VerifyReply&) {
    EXPECT_EQ(step.trace.has_value(), traced);
    return FakeTarget::Do::kAnswer;
  };
  harness.draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock&) {
    EXPECT_EQ(advance.trace.has_value(), traced);
    return harness.draft.advances == 5 ? FakeDraft::Do::kHold : FakeDraft::Do::kAnswer;
  };
  const int64_t before = testing::Allocations();
  harness.Start();
  harness.Run();
  const int64_t after = testing::Allocations();
  EXPECT_TRUE(harness.ending->status.ok());
  EXPECT_GT(harness.ending->counts.rounds, 10u);
  EXPECT_GT(harness.ending->counts.draft_tokens, 0u);
  return after - before;
}

TEST(TraceAllocations, OffIsTheSameAsNobodyWatching) {
  // What allocates once a process has done so.
  AllocationsOf({});
  const int64_t nobody = AllocationsOf({});
  EXPECT_GT(nobody, 100) << "they are counted";
  EXPECT_EQ(AllocationsOf({}), nobody) << "and are the same each time";

  const testing::FakeClock clock;
  testing::FakeTracer says_no(clock, /*sample_roots=*/false);
  EXPECT_EQ(AllocationsOf({TraceRequests(says_no)}), nobody);
  EXPECT_EQ(says_no.asked(), 1u);

  testing::FakeTracer says_yes(clock);  // the control
  EXPECT_GT(AllocationsOf({TraceRequests(says_yes)}, /*traced=*/true), nobody);
}

}  // namespace
}  // namespace tandem::orchestrator
