#include "common/concurrency/executor.h"

#include <pthread.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/concurrency/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::concurrency {
namespace {

using ::testing::ElementsAre;

TEST(SerialExecutorTest, RunsInlineAndNestedPostsAfter) {
  SerialExecutor executor;
  std::vector<int> order;
  EXPECT_FALSE(executor.RunsHere());
  executor.Post([&] {
    executor.Post([&] { order.push_back(2); });
    executor.Post([&] {
      order.push_back(3);
      executor.Post([&] { order.push_back(4); });
    });
    order.push_back(1);
    EXPECT_TRUE(executor.RunsHere());
  });
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4));
  EXPECT_FALSE(executor.RunsHere());
}

TEST(SerialExecutorTest, OneAtATimeInEachThreadsOrder) {
  SerialExecutor executor;
  std::vector<int> seen;  // no lock: that is the point
  constexpr int kThreads = 4, kEach = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        executor.Post([&seen, value = t * kEach + i] { seen.push_back(value); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(seen.size(), static_cast<size_t>(kThreads * kEach));
  std::vector<int> last(kThreads, -1);
  for (int value : seen) {
    EXPECT_GT(value, last[value / kEach]);
    last[value / kEach] = value;
  }
}

TEST(SerialExecutorTest, MayBeDestroyedByItsOwnTask) {
  auto executor = std::make_unique<SerialExecutor>();
  int ran = 0;
  executor->Post([&] {
    executor->Post([&] { ++ran; });
    executor.reset();
    ++ran;
  });
  EXPECT_EQ(ran, 2);
}

TEST(SerialExecutorTest, TaskIsDestroyedAfterItRan) {
  SerialExecutor executor;
  auto held = std::make_shared<int>(0);
  executor.Post([held] {});
  EXPECT_EQ(held.use_count(), 1);
}

TEST(ThreadExecutorTest, RunsInOrderOnItsNamedThread) {
  ThreadExecutor executor("device-executor-zero");
  std::vector<int> order;
  std::string name;
  bool here = false;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(executor.Post([&order, i] { order.push_back(i); }));
  }
  executor.Post([&] {
    char buffer[16];
    pthread_getname_np(pthread_self(), buffer, sizeof(buffer));
    name = buffer;
    here = executor.RunsHere();
  });
  executor.Close();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
  EXPECT_EQ(name, "device-executor");
  EXPECT_TRUE(here);
  EXPECT_FALSE(executor.RunsHere());
}

TEST(ThreadExecutorTest, CloseDrainsAndThenRefuses) {
  ThreadExecutor executor("x");
  Notification go;
  std::atomic<int> ran = 0;
  executor.Post([&] { go.Wait(); });
  for (int i = 0; i < 10; ++i) executor.Post([&] { ++ran; });
  EXPECT_GE(executor.queued(), 10u);
  go.Notify();
  executor.Close();
  EXPECT_EQ(ran, 10);
  auto held = std::make_shared<int>(0);
  EXPECT_FALSE(executor.Post([&ran, held] { ++ran; }));
  EXPECT_EQ(held.use_count(), 1);
  executor.Close();
  EXPECT_EQ(ran, 10);
}

TEST(ThreadExecutorTest, ManyThreadsPostAndClose) {
  ThreadExecutor executor("x");
  std::atomic<int> accepted = 0;
  int ran = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (executor.Post([&ran] { ++ran; })) {
        if (++accepted > 4000) break;
      }
    });
  }
  while (accepted < 1000) std::this_thread::yield();
  std::thread closer([&] { executor.Close(); });
  executor.Close();
  closer.join();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ran, accepted);
}

}  // namespace
}  // namespace tandem::concurrency
