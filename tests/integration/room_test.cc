// A request that needs the whole pool among short ones that come all the time, through all three
// services. What counts is who was served before it, not how long that took.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/front.h"
#include "tests/integration/held_call.h"
#include "tests/integration/requests.h"
#include "tests/support/table_model.h"
#include "tests/support/timed_model.h"
#include "tests/support/wait.h"

namespace tandem::testing::room_test {
namespace {

constexpr uint32_t kLetters = 12;
constexpr int64_t kPool = 512;
constexpr uint32_t kBlock = 16;  // room behind a text
constexpr uint32_t kShort = 82;  // output tokens: five such requests fit the pool
constexpr int kClients = 8;
const std::vector<uint32_t> kPrompt = {3, 4};
constexpr uint32_t kLong = kPool - 2 - kBlock;

ClusterOptions SmallPool() {
  TableModelOptions table;
  table.vocabulary_size = kLetters;
  table.peakedness = 2;
  table.context_length = 4096;
  table.pool_tokens = kPool;
  ClusterOptions options;
  options.target_model = std::make_unique<TimedModel>(
      std::make_unique<TableModel>(table), PassCost{absl::Milliseconds(1), absl::ZeroDuration()});
  options.tokenizer = LettersTokenizer(kLetters);
  return options;
}

// Clients that ask for a short text again as soon as they have one.
class Crowd {
 public:
  explicit Crowd(const std::shared_ptr<grpc::Channel>& channel) {
    for (int i = 0; i < kClients; ++i) threads_.emplace_back([this, channel] { Run(channel); });
  }
  ~Crowd() { End(); }
  void End() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // Sends the long request, and waits for its end. Returns how many short ones that came after it
  // were served before it. While it runs there is no room for any.
  int CameAfterAndWereServedBefore(const std::shared_ptr<grpc::Channel>& channel) {
    const int before = served_;
    EXPECT_TRUE(WaitUntil([&] { return served_ > before + 2 * kClients; }));
    HeldCall call(channel, GreedyRequest(kPrompt, kLong, /*draft_tokens=*/0),
                  {.on_started = [this] { it_came_ = true; }});
    const Reply& reply = call.Wait();
    const int overtook = overtook_;
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.ids.size(), kLong);
    return overtook;
  }
  int failed() const { return failed_; }

 private:
  void Run(const std::shared_ptr<grpc::Channel>& channel) {
    while (!over_) {
      bool later = false;
      HeldCall call(channel, GreedyRequest(kPrompt, kShort, /*draft_tokens=*/0),
                    {.on_started = [this, &later] { later = it_came_; }});
      if (!call.Wait().status.ok()) ++failed_;
      if (later) ++overtook_;
      ++served_;
    }
  }

  std::atomic<bool> over_{false};
  std::atomic<bool> it_came_{false};
  std::atomic<int> served_{0};
  std::atomic<int> overtook_{0};
  std::atomic<int> failed_{0};
  std::vector<std::thread> threads_;
};

// A few may overtake it while it is on its way from its Started to the line. Without its turn it
// waits for a pause, which never comes: hundreds do, until its patience is over.
TEST(RoomTest, ARequestOfThePoolsSizeIsServedInItsTurn) {
  InProcessCluster cluster(SmallPool());
  Crowd crowd(cluster.channel());
  EXPECT_LE(crowd.CameAfterAndWereServedBefore(cluster.channel()), kClients);
  crowd.End();
  EXPECT_EQ(crowd.failed(), 0);
  EXPECT_TRUE(cluster.AllFreed());
}

}  // namespace
}  // namespace tandem::testing::room_test
