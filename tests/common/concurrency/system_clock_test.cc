#include "common/concurrency/system_clock.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "common/concurrency/mutex.h"
#include "common/concurrency/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"

namespace tandem::concurrency {
namespace {

using ::testing::ElementsAre;

TEST(ThreadTimersTest, FireInOrderOfTimeAndNotEarly) {
  SteadyClock clock;
  std::vector<int> order;
  Notification done;
  ThreadTimers timers;
  Instant start = clock.Now();
  Instant end;
  timers.After(absl::Milliseconds(30), [&] {
    order.push_back(3);
    end = clock.Now();
    done.Notify();
  });
  timers.After(absl::Milliseconds(-5), [&] { order.push_back(1); });
  timers.After(absl::Milliseconds(15), [&] { order.push_back(2); });
  done.Wait();
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
  EXPECT_GE(end - start, absl::Milliseconds(30));
}

TEST(ThreadTimersTest, CancelledNeverFires) {
  std::atomic<int> fired = 0;
  Notification holding, release, done;
  ThreadTimers timers;
  // While this one runs no other can fire, however slow this thread is.
  timers.After(absl::ZeroDuration(), [&] {
    holding.Notify();
    release.Wait();
  });
  holding.Wait();
  auto held = std::make_shared<int>(0);
  TimerId id = timers.After(absl::ZeroDuration(), [&fired, held] { ++fired; });
  EXPECT_NE(id, 0u);
  timers.After(absl::ZeroDuration(), [&] { done.Notify(); });
  timers.Cancel(id);
  EXPECT_EQ(held.use_count(), 1);
  timers.Cancel(id);
  timers.Cancel(12345);
  release.Notify();
  done.Wait();
  EXPECT_EQ(fired, 0);
}

TEST(ThreadTimersTest, FunctionMaySetAndCancelTimers) {
  Notification done;
  ThreadTimers timers;
  std::function<void(int)> chain = [&](int left) {
    TimerId other = timers.After(absl::Hours(1), [] {});
    timers.Cancel(other);
    if (left == 0) return done.Notify();
    timers.After(absl::ZeroDuration(), [&, left] { chain(left - 1); });
  };
  chain(20);
  done.Wait();
}

TEST(ThreadTimersTest, DestructionForgetsWhatHasNotFired) {
  auto held = std::make_shared<int>(0);
  {
    ThreadTimers timers;
    timers.After(absl::InfiniteDuration(), [held] { ++*held; });
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(*held, 0);
}

TEST(ThreadTimersTest, ManyThreads) {
  std::atomic<int> fired = 0;
  Notification done;
  ThreadTimers timers;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        TimerId id = timers.After(absl::Hours(1), [&] { fired += 1'000'000; });
        timers.After(absl::Microseconds(i), [&] {
          if (++fired == 800) done.Notify();
        });
        timers.Cancel(id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done.Wait();
  EXPECT_EQ(fired, 800);
}

}  // namespace
}  // namespace tandem::concurrency
