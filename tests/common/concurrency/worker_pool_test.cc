#include "common/concurrency/worker_pool.h"

#include <atomic>

#include "common/concurrency/mutex.h"
#include "common/concurrency/notification.h"
#include "gtest/gtest.h"

namespace tandem::concurrency {
namespace {

TEST(WorkerPoolTest, TasksRunSideBySide) {
  WorkerPool pool("test", 2);
  Notification first, second;
  ASSERT_TRUE(pool.Post([&] {
    first.Notify();
    second.Wait();  // never ends if the other one waits for it
  }));
  ASSERT_TRUE(pool.Post([&] {
    first.Wait();
    second.Notify();
  }));
  pool.Close();
  EXPECT_FALSE(pool.Post([] {}));
}

TEST(WorkerPoolTest, CloseRunsAllThatWasAccepted) {
  std::atomic<int> ran{0};
  WorkerPool pool("test", 3);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(pool.Post([&] { ++ran; }));
  pool.Close();
  EXPECT_EQ(ran, 1000);
}

}  // namespace
}  // namespace tandem::concurrency
