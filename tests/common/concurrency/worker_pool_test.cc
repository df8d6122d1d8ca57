#include "common/concurrency/worker_pool.h"

#include <atomic>
#include <set>
#include <thread>
#include <vector>

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

// What runs on a pool stays one at a time and in order, and leaves the posting thread alone.
TEST(WorkerPoolTest, ASerialExecutorOnItKeepsItsOrder) {
  WorkerPool pool("test", 4);
  SerialExecutor serial(&pool);
  std::vector<int> order;  // unguarded on purpose: ThreadSanitizer watches
  std::atomic<bool> here{false};
  const std::thread::id poster = std::this_thread::get_id();
  for (int i = 0; i < 2000; ++i) {
    serial.Post([&, i] {
      order.push_back(i);
      if (std::this_thread::get_id() == poster) here = true;
    });
  }
  Notification done;
  serial.Post([&] { done.Notify(); });
  done.Wait();
  ASSERT_EQ(order.size(), 2000u);
  for (int i = 0; i < 2000; ++i) EXPECT_EQ(order[i], i);
  EXPECT_FALSE(here);
}

TEST(WorkerPoolTest, ASerialExecutorOutlivesAClosedPool) {
  WorkerPool pool("test", 1);
  SerialExecutor serial(&pool);
  pool.Close();
  bool ran = false;
  serial.Post([&] { ran = true; });
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace tandem::concurrency
