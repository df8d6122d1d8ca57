#include "common/concurrency/bounded_queue.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::concurrency {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Queue = BoundedQueue<int>;

TEST(BoundedQueueTest, FirstInFirstOut) {
  Queue queue(3);
  EXPECT_TRUE(queue.Push(1).ok());
  EXPECT_TRUE(queue.TryPush(2).ok());
  EXPECT_TRUE(queue.Push(3).ok());
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.TryPush(4).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(queue.TryPush(4).message(), HasSubstr("3 items"));
  EXPECT_EQ(*queue.Pop(), 1);
  EXPECT_THAT(*queue.PopAll(), ElementsAre(2, 3));
  EXPECT_EQ(queue.TryPop(), std::nullopt);
}

TEST(BoundedQueueTest, PopForWaitsNoLongerThanTold) {
  Queue queue(3);
  EXPECT_EQ(*queue.PopFor(absl::ZeroDuration()), std::nullopt);
  EXPECT_EQ(*queue.PopFor(-absl::InfiniteDuration()), std::nullopt);
  EXPECT_EQ(*queue.PopFor(absl::Milliseconds(1)), std::nullopt);
  std::thread producer([&queue] { EXPECT_TRUE(queue.Push(1).ok()); });
  EXPECT_EQ(*queue.PopFor(absl::InfiniteDuration()), 1);
  producer.join();
  std::thread closer([&queue] { queue.Close(absl::CancelledError("closed")); });
  EXPECT_EQ(queue.PopFor(absl::Hours(1)).status(), absl::CancelledError("closed"));
  closer.join();
}

TEST(BoundedQueueTest, CloseKeepsWhatWasAccepted) {
  Queue queue(3);
  EXPECT_TRUE(queue.Push(1).ok());
  queue.Close(absl::CancelledError("first"));
  queue.Close(absl::InternalError("second"));
  EXPECT_EQ(queue.Push(2), absl::CancelledError("first"));
  EXPECT_EQ(queue.TryPush(2), absl::CancelledError("first"));
  EXPECT_EQ(*queue.Pop(), 1);
  EXPECT_EQ(queue.Pop().status(), absl::CancelledError("first"));
  EXPECT_EQ(queue.PopAll().status(), absl::CancelledError("first"));
}

TEST(BoundedQueueTest, CloseCanDiscard) {
  BoundedQueue<std::shared_ptr<int>> queue(3);
  auto item = std::make_shared<int>(1);
  EXPECT_TRUE(queue.Push(item).ok());
  queue.Close(absl::CancelledError("over"), BoundedQueue<std::shared_ptr<int>>::AtClose::kDiscard);
  EXPECT_EQ(item.use_count(), 1);
  EXPECT_EQ(queue.Pop().status(), absl::CancelledError("over"));
}

TEST(BoundedQueueTest, CloseWakesBothSides) {
  for (int round = 0; round < 50; ++round) {
    Queue full(1);
    Queue empty(1);
    ASSERT_TRUE(full.Push(0).ok());
    std::atomic<int> woken = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] { woken += full.Push(1) == absl::AbortedError("end"); });
      threads.emplace_back([&] { woken += empty.Pop().status() == absl::AbortedError("end"); });
      threads.emplace_back([&] { woken += empty.PopAll().status() == absl::AbortedError("end"); });
    }
    full.Close(absl::AbortedError("end"));
    empty.Close(absl::AbortedError("end"));
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(woken, 6);
    EXPECT_EQ(full.size(), 1u);
  }
}

TEST(BoundedQueueTest, NothingIsLostOrDoubledBetweenThreads) {
  constexpr int kProducers = 4, kEach = 2000;
  BoundedQueue<std::unique_ptr<int>> queue(7);
  std::vector<std::thread> producers, consumers;
  std::vector<std::vector<int>> taken(4);
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) {
        ASSERT_TRUE(queue.Push(std::make_unique<int>(p * kEach + i)).ok());
      }
    });
  }
  for (int c = 0; c < 4; ++c) {
    consumers.emplace_back([&, c] {
      while (true) {
        if (c % 2 == 0) {
          auto item = queue.Pop();
          if (!item.ok()) return;
          taken[c].push_back(**item);
        } else {
          auto items = queue.PopAll();
          if (!items.ok()) return;
          for (auto& item : *items) taken[c].push_back(*item);
        }
      }
    });
  }
  for (std::thread& thread : producers) thread.join();
  queue.Close(absl::CancelledError("done"));
  for (std::thread& thread : consumers) thread.join();
  std::vector<int> all;
  for (const std::vector<int>& part : taken) {
    // Of one producer, one consumer sees rising numbers.
    std::vector<int> last(kProducers, -1);
    for (int item : part) {
      EXPECT_GT(item, last[item / kEach]);
      last[item / kEach] = item;
      all.push_back(item);
    }
  }
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), static_cast<size_t>(kProducers * kEach));
  for (int i = 0; i < kProducers * kEach; ++i) EXPECT_EQ(all[i], i);
}

}  // namespace
}  // namespace tandem::concurrency
