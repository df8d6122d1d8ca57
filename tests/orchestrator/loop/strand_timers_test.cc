#include "orchestrator/loop/strand_timers.h"

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr LoopTimer kAlarm = LoopTimer::kWatchdog;

// Timers that count what they are asked, and a strand that may be slow.
class CountingTimers final : public concurrency::Timers {
 public:
  explicit CountingTimers(testing::FakeTimers& timers) : timers_(timers) {}
  concurrency::TimerId After(absl::Duration delay, std::function<void()> function) override {
    ++set;
    return timers_.After(delay, std::move(function));
  }
  void Cancel(concurrency::TimerId id) override { timers_.Cancel(id); }
  int set = 0;

 private:
  testing::FakeTimers& timers_;
};

class StrandTimersTest : public ::testing::Test {
 protected:
  void RunStrand() {
    while (!strand.empty()) {
      std::function<void()> next = std::move(strand.front());
      strand.pop_front();
      next();
    }
  }
  void Advance(absl::Duration by) {
    fake.Advance(by);
    RunStrand();
  }

  testing::FakeClock clock;
  testing::FakeTimers fake{clock};
  CountingTimers timers{fake};
  std::deque<std::function<void()>> strand;
  std::vector<std::pair<LoopTimer, concurrency::Instant>> fired;  // when
  std::unique_ptr<StrandTimers> alarms = std::make_unique<StrandTimers>(
      timers, clock,
      [this](std::function<void()> function) { strand.push_back(std::move(function)); },
      [this](LoopTimer timer) { fired.emplace_back(timer, clock.Now()); });
};

TEST_F(StrandTimersTest, FiresOnceWhenItsTimeHasCome) {
  const concurrency::Instant began = clock.Now();
  alarms->Set(kAlarm, absl::Milliseconds(10));
  Advance(absl::Milliseconds(9));
  EXPECT_THAT(fired, IsEmpty());
  Advance(absl::Seconds(5));
  ASSERT_EQ(fired.size(), 1u);
  EXPECT_EQ(fired[0].first, kAlarm);
  EXPECT_GE(fired[0].second, began + absl::Milliseconds(10));
}

TEST_F(StrandTimersTest, OneThatWasTakenBackNeverFires) {
  alarms->Set(kAlarm, absl::Milliseconds(10));
  alarms->Cancel(kAlarm);
  alarms->Cancel(LoopTimer::kRetry);  // was not set
  Advance(absl::Seconds(1));
  EXPECT_THAT(fired, IsEmpty());
  EXPECT_EQ(fake.waiting(), 0u);
}

TEST_F(StrandTimersTest, SetAnewItFiresAtTheNewTimeOnly) {
  alarms->Set(kAlarm, absl::Milliseconds(10));
  alarms->Set(kAlarm, absl::Milliseconds(100));
  Advance(absl::Milliseconds(99));
  EXPECT_THAT(fired, IsEmpty());
  Advance(absl::Milliseconds(1));
  EXPECT_EQ(fired.size(), 1u);
  alarms->Set(kAlarm, absl::Milliseconds(100));
  alarms->Set(kAlarm, absl::Milliseconds(10));
  Advance(absl::Milliseconds(10));
  EXPECT_EQ(fired.size(), 2u) << "an earlier time counts at once";
  Advance(absl::Seconds(1));
  EXPECT_EQ(fired.size(), 2u);
}

TEST_F(StrandTimersTest, OneThatIsTakenBackWhileTheStrandIsBusyDoesNotFire) {
  alarms->Set(kAlarm, absl::Milliseconds(10));
  fake.Advance(absl::Milliseconds(10));  // posted, not run
  ASSERT_EQ(strand.size(), 1u);
  alarms->Cancel(kAlarm);
  RunStrand();
  EXPECT_THAT(fired, IsEmpty());
  alarms->Set(kAlarm, absl::Milliseconds(10));
  fake.Advance(absl::Milliseconds(10));
  alarms->Set(kAlarm, absl::Milliseconds(10));
  RunStrand();
  EXPECT_THAT(fired, IsEmpty()) << "nor one that was set anew";
  Advance(absl::Milliseconds(10));
  EXPECT_EQ(fired.size(), 1u);
}

TEST_F(StrandTimersTest, NothingHappensAfterItsEnd) {
  alarms->Set(kAlarm, absl::Milliseconds(10));
  alarms->Set(LoopTimer::kRetry, absl::Milliseconds(20));
  fake.Advance(absl::Milliseconds(10));  // posted
  alarms = nullptr;
  Advance(absl::Seconds(1));
  EXPECT_THAT(fired, IsEmpty());
  EXPECT_EQ(fake.waiting(), 0u);
}

TEST_F(StrandTimersTest, RoundsThatSetAndTakeBackCostHardlyAnyRealTimer) {
  for (int round = 0; round < 1000; ++round) {
    alarms->Set(kAlarm, absl::Milliseconds(500));
    Advance(absl::Milliseconds(5));
    alarms->Cancel(kAlarm);
  }
  EXPECT_THAT(fired, IsEmpty());
  EXPECT_LE(timers.set, 20) << "5 s of rounds need one every half second";
}

TEST_F(StrandTimersTest, AShortOneThatIsTakenBackWakesNobody) {
  alarms->Set(kAlarm, StrandTimers::kLong - absl::Milliseconds(1));
  EXPECT_EQ(fake.waiting(), 1u);
  alarms->Cancel(kAlarm);
  EXPECT_EQ(fake.waiting(), 0u);
  alarms->Set(kAlarm, absl::Milliseconds(5));
  Advance(absl::Milliseconds(5));
  EXPECT_EQ(fired.size(), 1u);
}

// Beside a plain model: an alarm fires when it is due, and not otherwise, whatever came before.
TEST_F(StrandTimersTest, AnyOrderOfCallsFiresAsAPlainModelDoes) {
  std::mt19937 random(7);
  std::map<LoopTimer, concurrency::Instant> due;
  size_t seen = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto timer = static_cast<LoopTimer>(random() % kLoopTimers);
    switch (random() % 4) {
      case 0:
      case 1: {
        const absl::Duration delay =
            absl::Milliseconds(random() % 5 == 0 ? random() % 600 : random() % 50);
        alarms->Set(timer, delay);
        due[timer] = clock.Now() + delay;
        break;
      }
      case 2:
        alarms->Cancel(timer);
        due.erase(timer);
        break;
      default: {
        const concurrency::Instant until = clock.Now() + absl::Milliseconds(random() % 20);
        // Moment by moment, so that the model knows which one is due.
        Advance(absl::ZeroDuration());
        while (clock.Now() < until) Advance(absl::Milliseconds(1));
        size_t expected = 0;
        for (auto it = due.begin(); it != due.end();) {
          if (it->second > clock.Now()) {
            ++it;
            continue;
          }
          ++expected;
          const LoopTimer which = it->first;
          const concurrency::Instant when = it->second;
          ASSERT_THAT(std::vector(fired.begin() + static_cast<ptrdiff_t>(seen), fired.end()),
                      ::testing::Contains(std::make_pair(which, when)));
          it = due.erase(it);
        }
        ASSERT_EQ(fired.size() - seen, expected);
        seen = fired.size();
      }
    }
  }
  EXPECT_GT(seen, 1000u);
}

}  // namespace
}  // namespace tandem::orchestrator
