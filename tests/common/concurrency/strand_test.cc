#include "common/concurrency/strand.h"

#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::concurrency {
namespace {

using ::testing::ElementsAre;

TEST(StrandTest, RunsInlineAndNestedPostsAfter) {
  Strand executor;
  std::vector<int> order;
  executor.Post([&] {
    executor.Post([&] { order.push_back(2); });
    executor.Post([&] {
      order.push_back(3);
      executor.Post([&] { order.push_back(4); });
    });
    order.push_back(1);
  });
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4));
}

TEST(StrandTest, OneAtATimeInEachThreadsOrder) {
  Strand executor;
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

TEST(StrandTest, MayBeDestroyedByItsOwnTask) {
  auto executor = std::make_unique<Strand>();
  int ran = 0;
  executor->Post([&] {
    executor->Post([&] { ++ran; });
    executor.reset();
    ++ran;
  });
  EXPECT_EQ(ran, 2);
}

TEST(StrandTest, TaskIsDestroyedAfterItRan) {
  Strand executor;
  auto held = std::make_shared<int>(0);
  executor.Post([held] {});
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace tandem::concurrency
