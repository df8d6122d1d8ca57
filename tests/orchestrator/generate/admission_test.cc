#include "orchestrator/generate/admission.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_clock.h"

namespace tandem::orchestrator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kNever = absl::InfiniteDuration();

class AdmissionTest : public ::testing::Test {
 protected:
  struct Told {
    absl::Status status;
    absl::Duration waited;
    absl::Duration at;
    int times = 0;
  };

  void Make(uint32_t most_active, uint32_t most_waiting,
            absl::Duration patience = absl::Seconds(60)) {
    admission = std::make_shared<Admission>(AdmissionOptions{most_active, most_waiting, patience},
                                            timers, clock);
  }
  // Ids rise by themselves. `for_at_most`: until the request's deadline.
  uint64_t Ask(uint32_t priority = 0, absl::Duration for_at_most = kNever) {
    const uint64_t id = ++last_id;
    admission->Ask(id, priority, for_at_most == kNever ? kNever : clock.Now() + for_at_most,
                   [this, id](absl::Status status, absl::Duration waited) {
                     Told& it = told[id];
                     it.status = std::move(status);
                     it.waited = waited;
                     it.at = clock.Now();
                     ++it.times;
                     if (it.status.ok()) admitted.push_back(id);
                   });
    return id;
  }
  absl::StatusCode CodeOf(uint64_t id) { return told.at(id).status.code(); }
  std::string MessageOf(uint64_t id) { return std::string(told.at(id).status.message()); }

  testing::FakeClock clock;
  testing::FakeTimers timers{clock};
  std::shared_ptr<Admission> admission;
  uint64_t last_id = 0;
  std::map<uint64_t, Told> told;
  std::vector<uint64_t> admitted;  // in order
};

TEST_F(AdmissionTest, AFreePlaceIsGivenAtOnce) {
  Make(2, 4);
  Ask();
  Ask();
  EXPECT_THAT(admitted, ElementsAre(1, 2));
  EXPECT_EQ(told[1].waited, absl::ZeroDuration());
  EXPECT_EQ(admission->active(), 2u);
  EXPECT_EQ(timers.waiting(), 0u);
}

TEST_F(AdmissionTest, APlaceThatGetsFreeGoesToTheOneThatCameFirst) {
  Make(1, 4);
  for (int i = 0; i < 4; ++i) Ask();
  EXPECT_EQ(admission->waiting(), 3u);
  timers.Advance(absl::Seconds(3));
  admission->Leave(1);
  EXPECT_THAT(admitted, ElementsAre(1, 2));
  EXPECT_EQ(told[2].waited, absl::Seconds(3));
  EXPECT_EQ(admission->active(), 1u);
  admission->Leave(2);
  admission->Leave(3);
  EXPECT_THAT(admitted, ElementsAre(1, 2, 3, 4));
  admission->Leave(4);
  EXPECT_EQ(admission->active(), 0u);
  EXPECT_EQ(timers.waiting(), 0u);
}

TEST_F(AdmissionTest, HigherPriorityGoesFirstThenTheOrderOfArrival) {
  Make(1, 10);
  Ask();                                                         // 1 runs
  for (uint32_t priority : {0, 3, 10, 3, 0, 10}) Ask(priority);  // 2 to 7
  for (int i = 0; i < 6; ++i) admission->Leave(admitted.back());
  EXPECT_THAT(admitted, ElementsAre(1, 4, 7, 3, 5, 2, 6));
}

TEST_F(AdmissionTest, AHighPriorityTakesNoPlaceFromOneThatRuns) {
  Make(1, 10);
  Ask(0);
  Ask(10);
  EXPECT_THAT(admitted, ElementsAre(1));
}

TEST_F(AdmissionTest, AFullLineRefusesAtOnceAndSaysSo) {
  Make(2, 3);
  for (int i = 0; i < 5; ++i) Ask();
  const uint64_t refused = Ask(10);
  EXPECT_EQ(CodeOf(refused), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(refused),
              AllOf(HasSubstr("2 requests are active"), HasSubstr("3 wait: the line is full")));
  EXPECT_EQ(admission->waiting(), 3u);
  admission->Leave(1);
  const uint64_t waits = Ask();
  EXPECT_FALSE(told.contains(waits)) << "there was room in the line again";
}

TEST_F(AdmissionTest, ALineOfZeroMeansThatNobodyWaits) {
  Make(1, 0);
  Ask();
  const uint64_t refused = Ask();
  EXPECT_EQ(CodeOf(refused), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(refused), AllOf(HasSubstr("1 requests are active, which is the most"),
                                        HasSubstr("none may wait")));
  admission->Leave(1);
  Ask();
  EXPECT_THAT(admitted, ElementsAre(1, 3));
}

TEST_F(AdmissionTest, PatienceEndsTheWaitAndSaysHowLongItWasAndWhoWasAhead) {
  Make(1, 10, absl::Seconds(60));
  Ask();
  timers.Advance(absl::Seconds(1));
  Ask();
  Ask(5);
  const uint64_t last = Ask(0);
  timers.Advance(absl::Seconds(59));
  EXPECT_FALSE(told.contains(last));
  admission->Leave(1);  // 3 takes the place
  timers.Advance(absl::Seconds(1));
  EXPECT_EQ(CodeOf(last), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(2), HasSubstr("waited 1m for one of 1 places; requests ahead of it: 0"));
  EXPECT_THAT(MessageOf(last), HasSubstr("waited 1m for one of 1 places; requests ahead of it: 0"))
      << "2, which was ahead, gave up just before";
  EXPECT_EQ(admission->waiting(), 0u);
  EXPECT_EQ(told[last].waited, absl::Seconds(60));
}

TEST_F(AdmissionTest, TheWaitEndsShortlyBeforeTheRequestsOwnDeadline) {
  Make(1, 10, absl::Seconds(60));
  Ask();
  const uint64_t long_one = Ask(0, absl::Minutes(10));
  const uint64_t ahead = Ask(1, absl::Minutes(20));
  const uint64_t short_one = Ask(0, absl::Seconds(1));
  const absl::Duration began = clock.Now();
  timers.Advance(absl::Minutes(30));
  EXPECT_EQ(told[short_one].at - began, absl::Milliseconds(900))
      << "a tenth is left for the answer";
  EXPECT_THAT(MessageOf(short_one),
              HasSubstr("waited 900ms for one of 1 places; requests ahead of it: 2"));
  EXPECT_EQ(told[long_one].at - began, absl::Minutes(10) - Admission::kAnswerTime)
      << "its deadline counts, not the patience of those without one";
  EXPECT_EQ(told[ahead].at - began, absl::Minutes(20) - Admission::kAnswerTime);
  EXPECT_EQ(CodeOf(ahead), absl::StatusCode::kResourceExhausted);
}

TEST_F(AdmissionTest, ADeadlineThatHasPassedWaitsForNothing) {
  Make(1, 10);
  Ask();
  const uint64_t late = Ask(0, absl::Seconds(-5));
  timers.Advance(absl::ZeroDuration());
  EXPECT_EQ(CodeOf(late), absl::StatusCode::kResourceExhausted);
}

TEST_F(AdmissionTest, OneThatLeavesTheLineIsNeverCalledAndHoldsNobodyUp) {
  Make(1, 10);
  for (int i = 0; i < 3; ++i) Ask();
  admission->Leave(2);
  EXPECT_EQ(admission->waiting(), 1u);
  EXPECT_EQ(timers.waiting(), 1u);
  admission->Leave(1);
  EXPECT_THAT(admitted, ElementsAre(1, 3));
  timers.Advance(absl::Hours(1));
  EXPECT_FALSE(told.contains(2));
  admission->Leave(2);  // again: nothing
  admission->Leave(77);
  EXPECT_EQ(admission->active(), 1u);
}

TEST_F(AdmissionTest, OneWhoseTimeWasOverHasNoPlaceToGiveBack) {
  Make(1, 10, absl::Seconds(1));
  Ask();
  Ask();
  timers.Advance(absl::Seconds(2));
  Ask();  // 3 waits
  admission->Leave(2);
  EXPECT_THAT(admitted, ElementsAre(1));
  EXPECT_EQ(admission->active(), 1u);
}

TEST_F(AdmissionTest, DrainEndsThoseThatWaitAtOnceAndRefusesNewOnes) {
  Make(1, 10);
  for (int i = 0; i < 3; ++i) Ask();
  admission->Drain();
  const uint64_t late = Ask();
  for (uint64_t id : {uint64_t{2}, uint64_t{3}, late}) {
    EXPECT_EQ(CodeOf(id), absl::StatusCode::kUnavailable) << id;
    EXPECT_THAT(MessageOf(id), HasSubstr("ask another one"));
  }
  EXPECT_EQ(admission->waiting(), 0u);
  EXPECT_EQ(admission->active(), 1u) << "the one that runs may finish";
  EXPECT_EQ(timers.waiting(), 0u);
  admission->Leave(1);
  EXPECT_THAT(admitted, ElementsAre(1));
}

// Each request ends as it begins, and so lets the next one in: told one after another, not nested.
TEST_F(AdmissionTest, AThousandThatEndAtOnceDoNotNest) {
  Make(1, 2000);
  Ask();
  int depth = 0;
  int deepest = 0;
  int ended = 0;
  for (uint64_t id = 100; id < 1100; ++id) {
    admission->Ask(id, 0, kNever, [&, id](absl::Status, absl::Duration) {
      deepest = std::max(deepest, ++depth);
      admission->Leave(id);
      ++ended;
      --depth;
    });
  }
  admission->Leave(1);
  EXPECT_EQ(ended, 1000);
  EXPECT_EQ(deepest, 1);
  EXPECT_EQ(admission->active(), 0u);
}

TEST_F(AdmissionTest, TimersThatOutliveItDoNothing) {
  Make(1, 10);
  Ask();
  Ask();
  admission = nullptr;
  timers.Advance(absl::Hours(1));
  EXPECT_FALSE(told.contains(2));
}

// A plain model of the same rules, in which everything is looked for by walking over all requests.
class Model {
 public:
  struct Request {
    uint64_t id;
    uint32_t priority;
    absl::Duration since;
    absl::Duration ends;
  };
  Model(uint32_t most_active, uint32_t most_waiting)
      : most_active_(most_active), most_waiting_(most_waiting) {}

  void Ask(uint64_t id, uint32_t priority, absl::Duration now, absl::Duration ends) {
    if (active.size() < most_active_) {
      Admit(id);
    } else if (line.size() == most_waiting_) {
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
  void Expire(absl::Duration now) {
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
  const uint32_t most_active_;
  const uint32_t most_waiting_;
};

TEST_F(AdmissionTest, AnyOrderOfEventsKeepsTheRules) {
  uint64_t waited = 0;
  uint64_t expired = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const uint32_t most_active = 1 + seed % 4;
    const uint32_t most_waiting = seed % 7;
    Make(most_active, most_waiting, absl::Milliseconds(500));
    Model model(most_active, most_waiting);
    told.clear();
    admitted.clear();
    const uint64_t first = last_id + 1;
    for (int i = 0; i < 300; ++i) {
      const uint32_t action = random() % 10;
      if (action < 4) {
        const uint32_t priority = random() % 3;
        const absl::Duration given = absl::Milliseconds(10 * (1 + random() % 90));
        const bool has_deadline = random() % 2 == 0;
        const absl::Duration now = clock.Now();
        const uint64_t id = Ask(priority, has_deadline ? given : kNever);
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
      ASSERT_TRUE(model.line.empty() || model.active.size() == most_active) << "a lost place";
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

// Everything at once from several threads: never more than the most, and all places are free at the end.
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
  size_t most_running = 0;
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
        admission->Ask(id, i % 3, kNever, [&, id](absl::Status status, absl::Duration) {
          ++ended;
          if (!status.ok()) return;
          concurrency::MutexLock lock(mutex);
          running.push_back(id);
          most_running = std::max(most_running, running.size());
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
  EXPECT_EQ(most_running, 3u);
  EXPECT_EQ(admission->active(), 0u);
  EXPECT_EQ(admission->waiting(), 0u);
}

}  // namespace
}  // namespace tandem::orchestrator
