#include "model/cpu/compute_pool.h"

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::model::cpu {
namespace {

using Turn = ComputePool::Turn;

void AwaitWaiting(const ComputePool& pool, int count) {
  while (pool.waiting() < count) std::this_thread::yield();
}

TEST(ComputePool, WithoutAPoolATurnIsWhatWasAsked) {
  const Turn turn(nullptr, 7);
  EXPECT_EQ(turn.cores(), 7);
}

TEST(ComputePool, ATurnWaitsForMoreThanHalfOfWhatItAsked) {
  ComputePool pool(8);
  std::optional<Turn> few(std::in_place, &pool, 2);
  {
    const Turn many(&pool, 8);  // six of eight: no waiting for the last two
    EXPECT_EQ(many.cores(), 6);
  }
  std::optional<Turn> half(std::in_place, &pool, 2);  // now four of eight are free
  int taken = 0;
  std::thread waits([&] {
    const Turn many(&pool, 8);
    taken = many.cores();
  });
  AwaitWaiting(pool, 1);
  half.reset();
  waits.join();
  EXPECT_EQ(taken, 6);
}

TEST(ComputePool, SpareCoresAreThoseThatNobodyWants) {
  ComputePool pool(4);
  std::optional<Turn> turn(std::in_place, &pool, 3);
  {
    const ComputePool::Spare spare(&pool, 3);
    EXPECT_EQ(spare.cores(), 1);
    const ComputePool::Spare none(&pool, 3);
    EXPECT_EQ(none.cores(), 0) << "it does not wait";
  }
  std::thread waits([&pool] { const Turn many(&pool, 4); });
  AwaitWaiting(pool, 1);
  {
    const ComputePool::Spare spare(&pool, 1);
    EXPECT_EQ(spare.cores(), 0) << "the free core is for who waits";
  }
  turn.reset();
  waits.join();
  const Turn all(&pool, 4);
  EXPECT_EQ(all.cores(), 4) << "what was spare was given back";
  EXPECT_EQ(ComputePool::Spare(nullptr, 3).cores(), 3);
}

TEST(ComputePool, MoreThanThereAreIsCut) {
  ComputePool pool(2);
  const Turn turn(&pool, 16);
  EXPECT_EQ(turn.cores(), 2);
}

TEST(ComputePool, TurnsComeInTheOrderOfAsking) {
  ComputePool pool(2);
  std::optional<Turn> held(std::in_place, &pool, 2);
  std::vector<int> order;  // each turn takes both cores, so it is written by one at a time
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      const Turn turn(&pool, 2);
      EXPECT_EQ(turn.cores(), 2);
      order.push_back(i);
    });
    AwaitWaiting(pool, i + 1);
  }
  held.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(pool.waiting(), 0);
}

// A later turn that would fit at once does not go before one that waits for more.
TEST(ComputePool, NobodyOvertakes) {
  ComputePool pool(2);
  std::optional<Turn> held(std::in_place, &pool, 1);
  std::thread both([&] { const Turn turn(&pool, 2); });
  AwaitWaiting(pool, 1);
  std::thread one([&] { const Turn turn(&pool, 1); });
  AwaitWaiting(pool, 2);
  held.reset();
  both.join();
  one.join();
}

TEST(ComputePool, NeverMoreThanItsCores) {
  ComputePool pool(3);
  std::atomic<int> busy{0};
  std::atomic<int> max{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) {
    threads.emplace_back([&, i] {
      for (int turns = 0; turns < 2000; ++turns) {
        const Turn turn(&pool, 1 + (i + turns) % 4);
        const int now = busy.fetch_add(turn.cores()) + turn.cores();
        int seen = max.load();
        while (now > seen && !max.compare_exchange_weak(seen, now)) {
        }
        busy.fetch_sub(turn.cores());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(max.load(), 3);
  EXPECT_GT(max.load(), 0);
  const Turn all(&pool, 3);
  EXPECT_EQ(all.cores(), 3);
}

}  // namespace
}  // namespace tandem::model::cpu
