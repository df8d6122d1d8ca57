// Calls on many threads that share one bound.
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/stream/unread_replies.h"

namespace tandem::orchestrator {
namespace {

TEST(UnreadRepliesThreads, TheBoundHoldsAndEachCallIsToldOnce) {
  constexpr size_t kMax = 3'000;  // one call alone passes it
  const auto all = std::make_shared<UnreadReplies>(UnreadLimits{1000, kMax});
  std::atomic<int> ended{0};
  std::atomic<size_t> most{0};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(i);
      for (int round = 0; round < 200; ++round) {
        // Another thread may tell a call that is just over, so the call does not own this.
        const auto told = std::make_shared<std::atomic<int>>(0);
        {
          UnreadCall call(all);
          call.WhenOver([told](const absl::Status& status) {
            EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
            ++*told;
          });
          for (int message = 0; message < 20; ++message) {
            const size_t bytes = random() % 1000;
            call.Add(bytes);
            if (random() % 2 == 0) call.Remove(bytes);
            const size_t now = all->counts().bytes;
            EXPECT_LE(now, kMax);
            if (now > most) most = now;
          }
        }
        EXPECT_LE(*told, 1);
        ended += *told;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(ended, 0) << "the bound was never reached";
  EXPECT_GT(most, kMax / 2);
  EXPECT_EQ(all->counts().bytes, 0u);
  EXPECT_EQ(all->counts().calls, 0u);
}

}  // namespace
}  // namespace tandem::orchestrator
