#include "common/concurrency/worker_pool.h"

#include <pthread.h>

#include <atomic>
#include <memory>
#include <string>
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

TEST(WorkerPoolTest, OneThreadRunsInOrderUnderItsName) {
  WorkerPool pool("device-executor-zero", 1);
  std::vector<int> order;
  std::string name;
  std::thread::id ran_on = std::this_thread::get_id();
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(pool.Post([&order, i] { order.push_back(i); }));
  }
  pool.Post([&] {
    char buffer[16];
    pthread_getname_np(pthread_self(), buffer, sizeof(buffer));
    name = buffer;
    ran_on = std::this_thread::get_id();
  });
  pool.Close();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
  EXPECT_EQ(name, "device-executor");
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST(WorkerPoolTest, CloseRunsWhatWaitsAndThenRefuses) {
  WorkerPool pool("x", 1);
  Notification go;
  std::atomic<int> ran = 0;
  pool.Post([&] { go.Wait(); });
  for (int i = 0; i < 10; ++i) pool.Post([&] { ++ran; });
  EXPECT_EQ(ran, 0);
  go.Notify();
  pool.Close();
  EXPECT_EQ(ran, 10);
  auto held = std::make_shared<int>(0);
  EXPECT_FALSE(pool.Post([&ran, held] { ++ran; }));
  EXPECT_EQ(held.use_count(), 1);
  pool.Close();
  EXPECT_EQ(ran, 10);
}

TEST(WorkerPoolTest, ManyThreadsPostWhileItCloses) {
  WorkerPool pool("x", 1);
  std::atomic<int> accepted = 0;
  int ran = 0;  // no lock: there is one thread
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (pool.Post([&ran] { ++ran; })) {
        if (++accepted > 4000) break;
      }
    });
  }
  while (accepted < 1000) std::this_thread::yield();
  pool.Close();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ran, accepted);
}

}  // namespace
}  // namespace tandem::concurrency
