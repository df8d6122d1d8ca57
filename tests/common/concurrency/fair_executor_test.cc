#include "common/concurrency/fair_executor.h"

#include <atomic>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/concurrency/thread_cpu_clock.h"
#include "common/concurrency/worker_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::concurrency {
namespace {

// Runs nothing by itself.
class ManualExecutor final : public Executor {
 public:
  bool Post(Task task) override {
    tasks.push_back(std::move(task));
    return true;
  }
  void RunOne() {
    Task task = std::move(tasks.front());
    tasks.pop_front();
    task();
  }

  std::deque<Task> tasks;
};

TEST(FairExecutorTest, ClientsHaveTurns) {
  ManualExecutor executor;
  std::string order;
  {
    FairExecutor fair(executor, 1);
    for (int i = 0; i < 1000; ++i) fair.Post("greedy", [&order] { order += 'g'; });
    fair.Post("one", [&order] { order += '1'; });
    fair.Post("two", [&order] { order += '2'; });
    fair.Post("two", [&order] { order += '2'; });
    while (!executor.tasks.empty()) executor.RunOne();
  }
  EXPECT_THAT(order, ::testing::StartsWith("gg12g2gg"));
  EXPECT_EQ(order.size(), 1003u);
}

TEST(FairExecutorTest, NoMoreThanTheMostAreWithTheExecutor) {
  ManualExecutor executor;
  FairExecutor fair(executor, 3);
  for (int i = 0; i < 10; ++i) fair.Post("one", [] {});
  EXPECT_EQ(executor.tasks.size(), 3u);
  executor.RunOne();
  EXPECT_EQ(executor.tasks.size(), 3u);
  while (!executor.tasks.empty()) executor.RunOne();
}

TEST(FairExecutorTest, AfterATaskTheThreadMayRest) {
  constexpr absl::Duration kRest = absl::Milliseconds(20);
  ManualExecutor executor;
  FairExecutor fair(executor, 1);
  absl::Time ran, next;
  fair.Post(
      "one", [&] { ran = absl::Now(); }, kRest);
  fair.Post("two", [&] { next = absl::Now(); });
  executor.RunOne();
  ASSERT_EQ(executor.tasks.size(), 1u);
  executor.RunOne();
  EXPECT_GE(next - ran, kRest);
}

TEST(FairExecutorTest, AThreadThatRestsDoesSoAsLongAsTheTaskComputed) {
  constexpr absl::Duration kComputed = absl::Milliseconds(30);
  ManualExecutor executor;
  FairExecutor fair(executor, 1);
  absl::Time computed, rested;
  fair.Post(
      "one",
      [&] {
        const ThreadCpuClock clock;
        const Instant begin = clock.Now();
        while (clock.Now() - begin < kComputed) {
        }
        computed = absl::Now();
      },
      absl::Nanoseconds(1));
  fair.Post("two", [&] { rested = absl::Now(); });
  executor.RunOne();
  executor.RunOne();
  EXPECT_GE(rested - computed, kComputed);
}

TEST(FairExecutorTest, AClosedExecutorsTasksRunAllTheSame) {
  WorkerPool pool("test", 2);
  FairExecutor fair(pool, 2);
  pool.Close();
  int ran = 0;
  for (int i = 0; i < 5; ++i) fair.Post("one", [&ran] { ++ran; });
  EXPECT_EQ(ran, 5);
}

TEST(FairExecutorTest, ManyThreadsAndClients) {
  WorkerPool pool("test", 3);
  std::atomic<int> ran{0};
  std::vector<int> last(4, -1);  // of each client: its tasks keep their order, one thread a time
  {
    FairExecutor fair(pool, 1);
    std::vector<std::thread> clients;
    for (size_t client = 0; client < last.size(); ++client) {
      clients.emplace_back([&, client] {
        for (int i = 0; i < 500; ++i) {
          fair.Post(std::to_string(client), [&, client, i] {
            EXPECT_EQ(last[client], i - 1);
            last[client] = i;
            ++ran;
          });
        }
      });
    }
    for (std::thread& client : clients) client.join();
    while (ran < 2000) std::this_thread::yield();
  }
  pool.Close();
}

}  // namespace
}  // namespace tandem::concurrency
