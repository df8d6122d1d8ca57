// Several requests over several targets that fail in every way, at random: no id changes, nothing
// is left.
#include <algorithm>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/pool_harness.h"
#include "tests/orchestrator/verify/pool_texts.h"
#include "tests/support/fuzz_seeds.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using Do = WireTarget::Do;

// Deals out trouble, up to a number of times; then all is well.
class Trouble {
 public:
  Trouble(PoolHarness& harness, size_t targets, uint32_t seed)
      : harness_(harness), targets_(targets), random_(seed) {
    for (size_t i = 0; i < targets; ++i) {
      harness.target(i).on_step = [this](const internal::v1::Step& step,
                                         internal::v1::Verdict& verdict) {
        return OnStep(step, verdict);
      };
    }
  }

  // Between two events.
  void Maybe() {
    if (left_ > 0 && random_() % 100 == 0) {
      --left_;
      WireTarget& target = harness_.target(random_() % targets_);
      switch (random_() % 4) {
        case 0:
          target.Cut();
          break;
        case 1:
          target.Kill();
          break;
        case 2:
          target.slots = random_() % 4;
          break;
        case 3:
          target.queued_rows = random_() % 100;
          break;
      }
    }
    // Soon enough for everybody's patience: when nothing happens, a step of the clock is a long
    // time.
    const bool back = left_ == 0 || random_() % 8 == 0;
    const bool roomy = left_ == 0 || random_() % 100 == 0;
    for (size_t i = 0; i < targets_; ++i) {
      if (back) harness_.target(i).reachable = true;
      if (roomy) harness_.target(i).slots = 64;
    }
  }

 private:
  Do OnStep(const internal::v1::Step& step, internal::v1::Verdict& verdict) {
    if (left_ == 0 || random_() % 20 != 0) return Do::kAnswer;
    --left_;
    const internal::v1::Status statuses[] = {
        internal::v1::STATUS_DRAINING,    internal::v1::STATUS_NO_SLOT,
        internal::v1::STATUS_NEED_PREFIX, internal::v1::STATUS_INTERNAL,
        internal::v1::STATUS_CLOSED,      internal::v1::STATUS_STALE,
        internal::v1::STATUS_EXPIRED};
    const size_t what = random_() % 8;
    if (what == 7) return Do::kDrop;
    // The first two are told new sequences alone, and the third those that the target has.
    if (what < 3 && (step.prefix().keep() > 0) != (what == 2)) return Do::kAnswer;
    verdict.clear_entries();
    verdict.set_status(statuses[what]);
    return Do::kAnswer;
  }

  PoolHarness& harness_;
  const size_t targets_;
  std::mt19937 random_;
  int left_ = 40;
};

TEST(TargetTrouble, ChangesNoId) {
  uint32_t replays = 0;
  for (uint32_t seed = 0; seed < testing::FuzzSeeds(30); ++seed) {
    SCOPED_TRACE(seed);
    const size_t targets = 1 + seed % 3;
    PoolHarness harness(static_cast<int>(targets));
    Trouble trouble(harness, targets, seed);
    std::vector<PoolHarness::Request*> requests;
    for (uint64_t i = 0; i < 6; ++i) {
      GenerationRequest text = Text(seed * 10 + i, 60, i % 2 == 0 ? 1 : 0);
      text.priority = static_cast<uint32_t>(i % 3);
      requests.push_back(&harness.Add(text));
    }
    harness.Run([&] {
      trouble.Maybe();
      return std::all_of(requests.begin(), requests.end(),
                         [](const auto* request) { return request->ending.has_value(); });
    });
    for (auto* request : requests) {
      ExpectRight(*request);
      replays += request->ending->counts.target_replays;
    }
    harness.DeliverAll();
    EXPECT_EQ(harness.pool().waiting_sessions(), 0u);
    for (size_t i = 0; i < targets; ++i) EXPECT_THAT(harness.target(i).sequences(), ElementsAre());
  }
  EXPECT_GT(replays, 250u) << "there was trouble";
}

}  // namespace
}  // namespace tandem::orchestrator
