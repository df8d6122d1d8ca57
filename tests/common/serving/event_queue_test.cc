#include "common/serving/event_queue.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::serving {
namespace {

using Queue = EventQueue<int>;

TEST(EventQueueTest, RequestsAreRefusedBeyondTheLimitAndNothingElseIs) {
  Queue queue(2, "wait");
  EXPECT_TRUE(queue.PushRequest(1).ok());
  queue.Push(2);
  EXPECT_EQ(queue.PushRequest(3), absl::ResourceExhaustedError("wait"));
  queue.Push(4);
  EXPECT_EQ(queue.TryPop(), 1);
  EXPECT_EQ(queue.TryPop(), 2);
  EXPECT_EQ(queue.TryPop(), 4);
  EXPECT_EQ(queue.TryPop(), std::nullopt);
  EXPECT_TRUE(queue.PushRequest(5).ok());
}

TEST(EventQueueTest, PopForWaitsNoLongerThanTold) {
  Queue queue(3, "wait");
  EXPECT_EQ(*queue.PopFor(absl::ZeroDuration()), std::nullopt);
  EXPECT_EQ(*queue.PopFor(-absl::InfiniteDuration()), std::nullopt);
  EXPECT_EQ(*queue.PopFor(absl::Milliseconds(1)), std::nullopt);
  std::thread producer([&queue] { queue.Push(1); });
  EXPECT_EQ(*queue.PopFor(absl::InfiniteDuration()), 1);
  producer.join();
  std::thread closer([&queue] { queue.Close(); });
  EXPECT_TRUE(absl::IsCancelled(queue.PopFor(absl::Hours(1)).status()));
  closer.join();
}

TEST(EventQueueTest, CloseKeepsWhatWasPushed) {
  Queue queue(3, "wait");
  queue.Push(1);
  queue.Close();
  queue.Push(2);
  EXPECT_TRUE(absl::IsCancelled(queue.PushRequest(3)));
  EXPECT_EQ(*queue.PopFor(absl::Hours(1)), 1);
  EXPECT_TRUE(absl::IsCancelled(queue.PopFor(absl::Hours(1)).status()));
  EXPECT_EQ(queue.TryPop(), std::nullopt);
}

TEST(EventQueueTest, NothingIsLostOrDoubledBetweenThreads) {
  constexpr int kProducers = 4, kEach = 2000;
  EventQueue<std::unique_ptr<int>> queue(7, "wait");
  std::vector<std::thread> producers, consumers;
  std::vector<std::vector<int>> taken(2);
  for (int p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (int i = 0; i < kEach; ++i) {
        const int value = p * kEach + i;
        if (i % 2 == 0) {
          queue.Push(std::make_unique<int>(value));
        } else {
          while (!queue.PushRequest(std::make_unique<int>(value)).ok()) std::this_thread::yield();
        }
      }
    });
  }
  for (std::vector<int>& mine : taken) {
    consumers.emplace_back([&queue, &mine] {
      while (true) {
        auto event = queue.PopFor(absl::InfiniteDuration());
        if (!event.ok()) return;
        mine.push_back(***event);
      }
    });
  }
  for (std::thread& thread : producers) thread.join();
  queue.Close();
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
}  // namespace tandem::serving
