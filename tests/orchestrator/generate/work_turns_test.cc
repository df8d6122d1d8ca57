#include "orchestrator/generate/work_turns.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"

namespace tandem::orchestrator {
namespace {

constexpr size_t kPrompt = 8192;

// Runs tasks at once, and counts them.
class CountingExecutor final : public concurrency::Executor {
 public:
  bool Post(concurrency::Task task) override {
    ++tasks;
    task();
    return true;
  }
  int tasks = 0;
};

std::string Client(int i) { return absl::StrCat("ipv4:10.0.0.1:", 1000 + i); }

struct World {
  void Post(const std::string& client, size_t bytes) {
    turns.Post(client, bytes, [this] { ++ran; });
  }
  // Each of the clients sends a prompt, so many times.
  void Attack(int clients, int times) {
    for (int i = 0; i < times; ++i) {
      for (int client = 0; client < clients; ++client) Post(Client(client), kPrompt);
    }
  }
  testing::FakeClock clock;
  CountingExecutor workers, long_workers;
  WorkTurns turns{clock, workers, 1, &long_workers, 1};
  int ran = 0;
};

TEST(WorkTurns, ALongRequestIsLongWorkWhoeverSendsIt) {
  World world;
  world.Post(Client(1), kLongRequest + 1);
  EXPECT_EQ(world.long_workers.tasks, 1);
  world.Post(Client(1), kLongRequest);
  EXPECT_EQ(world.workers.tasks, 1);
  EXPECT_EQ(world.ran, 2);
}

// None of these requests is long by itself.
TEST(WorkTurns, ManyShortRequestsOfAClientAreLongWork) {
  for (const int clients : {4, 8, 16, 100, 600}) {
    World world;
    world.Attack(clients, 50);
    const auto short_bytes = static_cast<size_t>(world.workers.tasks) * kPrompt;
    EXPECT_LE(short_bytes, LongWork::kShortBytes) << clients;
    EXPECT_EQ(world.ran, clients * 50);
    const int before = world.workers.tasks;
    for (int i = 0; i < 50; ++i) world.Post("ipv4:10.0.0.2:1", 20);
    EXPECT_EQ(world.workers.tasks, before + 50) << "who has little to do has the short workers";
  }
}

TEST(WorkTurns, OneThatIsAloneHasTheWholeShareEachSecond) {
  World world;
  constexpr int kInASecond = static_cast<int>(LongWork::kShortBytes / kPrompt);
  for (int second = 1; second <= 3; ++second) {
    world.Attack(1, 2 * kInASecond);
    EXPECT_EQ(world.workers.tasks, second * kInASecond);
    world.clock.Advance(absl::Seconds(1));
  }
}

TEST(WorkTurns, WithoutWorkersForLongWorkTheOthersDoIt) {
  testing::FakeClock clock;
  CountingExecutor workers;
  WorkTurns turns(clock, workers, 1, nullptr, 1);
  turns.Post("one", kLongRequest + 1, [] {});
  EXPECT_EQ(workers.tasks, 1);
}

}  // namespace
}  // namespace tandem::orchestrator
