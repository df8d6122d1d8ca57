// Any order of events, from one thread and from several: the rules hold, and no place is lost.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "common/concurrency/instant.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/generate/admission_fixture.h"

namespace tandem::orchestrator {
namespace {

// A plain model of the same rules, in which everything is looked for by walking over all requests.
class Model {
 public:
  struct Request {
    uint64_t id;
    uint32_t priority;
    concurrency::Instant since;
    concurrency::Instant ends;
  };
  Model(uint32_t max_active, uint32_t max_waiting)
      : max_active_(max_active), max_waiting_(max_waiting) {}

  void Ask(uint64_t id, uint32_t priority, concurrency::Instant now, concurrency::Instant ends) {
    if (active.size() < max_active_) {
      Admit(id);
    } else if (line.size() == max_waiting_) {
      turned_away.push_back(id);
    } else {
      line.push_back({id, priority, now, ends});
    }
  }
  void Leave(uint64_t id) {
    if (std::erase_if(line, [id](const Request& r) { return r.id == id; }) > 0) return;
    if (std::erase(active, id) == 0 || line.empty()) return;
    auto next = line.begin();
    for (auto it = line.begin(); it != line.end(); ++it) {
      if (it->priority > next->priority) next = it;
    }
    const uint64_t admitted_id = next->id;
    line.erase(next);
    Admit(admitted_id);
  }
  void Expire(concurrency::Instant now) {
    std::erase_if(line, [&](const Request& r) {
      if (r.ends > now) return false;
      turned_away.push_back(r.id);
      return true;
    });
  }
  std::vector<uint64_t> active;
  std::vector<Request> line;  // in the order of arrival
  std::vector<uint64_t> admitted;
  std::vector<uint64_t> turned_away;

 private:
  void Admit(uint64_t id) {
    active.push_back(id);
    admitted.push_back(id);
  }
  const uint32_t max_active_;
  const uint32_t max_waiting_;
};

TEST_F(AdmissionTest, AnyOrderOfEventsKeepsTheRules) {
  uint64_t waited = 0;
  uint64_t expired = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const uint32_t max_active = 1 + seed % 4;
    const uint32_t max_waiting = seed % 7;
    Make(max_active, max_waiting, absl::Milliseconds(500));
    Model model(max_active, max_waiting);
    told.clear();
    admitted.clear();
    const uint64_t first = last_id + 1;
    for (int i = 0; i < 300; ++i) {
      const uint32_t action = random() % 10;
      if (action < 4) {
        const uint32_t priority = random() % 3;
        const absl::Duration given = absl::Milliseconds(10 * (1 + random() % 90));
        const bool has_deadline = random() % 2 == 0;
        const concurrency::Instant now = clock.Now();
        const uint64_t id = Ask(priority, has_deadline ? given : absl::InfiniteDuration());
        model.Ask(id, priority, now,
                  now + (has_deadline ? given - given / 10 : absl::Milliseconds(500)));
      } else if (action < 8) {
        const uint64_t id = first + random() % (last_id - first + 2);
        admission->Leave(id);
        model.Leave(id);
      } else {
        timers.Advance(absl::Milliseconds(random() % 60));
        model.Expire(clock.Now());
      }
      ASSERT_EQ(admitted, model.admitted);
      ASSERT_EQ(admission->active(), model.active.size());
      ASSERT_EQ(admission->waiting(), model.line.size());
      ASSERT_EQ(timers.waiting(), model.line.size());
      ASSERT_TRUE(model.line.empty() || model.active.size() == max_active) << "a lost place";
      waited += admission->waiting();
    }
    for (uint64_t id : model.turned_away) {
      ASSERT_EQ(CodeOf(id), absl::StatusCode::kResourceExhausted) << id;
      expired += told[id].waited > absl::ZeroDuration();
    }
    EXPECT_EQ(told.size(), model.admitted.size() + model.turned_away.size());
    for (const auto& [id, it] : told) EXPECT_EQ(it.times, 1) << id;
    while (!model.active.empty()) {
      const uint64_t id = model.active.back();
      admission->Leave(id);
      model.Leave(id);
    }
    EXPECT_EQ(admission->active(), 0u);
    EXPECT_EQ(admission->waiting(), 0u);
  }
  EXPECT_GT(waited, 10000u) << "the events left the line empty: this would show nothing";
  EXPECT_GT(expired, 500u);
}

// Everything at once from several threads: never more than the most, and all places are free at the
// end.
TEST(AdmissionThreadsTest, PlacesAreNeitherLostNorGivenTwice) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  testing::FakeClock clock;
  testing::FakeTimers timers(clock);
  auto admission =
      std::make_shared<Admission>(AdmissionOptions{3, 8, absl::Milliseconds(5)}, timers, clock);
  std::atomic<int> ended{0};
  concurrency::Mutex mutex;
  std::vector<uint64_t> running;
  size_t max_running = 0;
  auto end_one = [&] {
    uint64_t id = 0;
    {
      concurrency::MutexLock lock(mutex);
      if (running.empty()) return false;
      id = running.back();
      running.pop_back();
    }
    admission->Leave(id);
    return true;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kEach; ++i) {
        const uint64_t id = static_cast<uint64_t>(t) * kEach + i;
        admission->Ask(id, i % 3, "", kNever, [&, id](absl::Status status, absl::Duration) {
          ++ended;
          if (!status.ok()) return;
          concurrency::MutexLock lock(mutex);
          running.push_back(id);
          max_running = std::max(max_running, running.size());
        });
        if (i % 5 != 0) end_one();
        if (i % 7 == 0) timers.Advance(absl::Milliseconds(1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  while (end_one()) {
  }
  timers.Advance(absl::Seconds(1));
  EXPECT_EQ(ended, kThreads * kEach);
  EXPECT_EQ(max_running, 3u);
  EXPECT_EQ(admission->active(), 0u);
  EXPECT_EQ(admission->waiting(), 0u);
}

}  // namespace
}  // namespace tandem::orchestrator
