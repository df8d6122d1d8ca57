// The loop's alarms over real timers: each fires on the request's strand, and never after it was set anew
// or taken back.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "common/concurrency/clock.h"
#include "orchestrator/generate/loop_timers.h"

namespace tandem::orchestrator {

// Used on the strand only.
class StrandTimers final : public LoopTimers {
 public:
  // `post`: brings a function to the strand, from the timers' thread; it must be harmless after the end of
  // whatever the function works on. `fire`: called on the strand.
  StrandTimers(concurrency::Timers& timers, std::function<void(std::function<void()>)> post,
               std::function<void(LoopTimer)> fire)
      : timers_(timers),
        shared_(std::make_shared<Shared>(Shared{std::move(post), std::move(fire), {}})) {}
  ~StrandTimers() override {
    for (int i = 0; i < kLoopTimers; ++i) Cancel(static_cast<LoopTimer>(i));
  }

  void Set(LoopTimer timer, absl::Duration delay) override {
    Cancel(timer);
    Alarm& alarm = AlarmOf(timer);
    const uint64_t generation = alarm.generation;
    alarm.id = timers_.After(delay, [shared = shared_, timer, generation] {
      shared->post([shared, timer, generation] {
        Alarm& now = shared->alarms[static_cast<size_t>(timer)];
        if (now.generation != generation) return;
        ++now.generation;
        now.id = 0;
        shared->fire(timer);
      });
    });
  }

  void Cancel(LoopTimer timer) override {
    Alarm& alarm = AlarmOf(timer);
    ++alarm.generation;
    if (alarm.id != 0) timers_.Cancel(alarm.id);
    alarm.id = 0;
  }

 private:
  struct Alarm {
    uint64_t generation = 0;  // an alarm of an older one is stale
    concurrency::TimerId id = 0;
  };
  struct Shared {
    std::function<void(std::function<void()>)> post;
    std::function<void(LoopTimer)> fire;
    std::array<Alarm, kLoopTimers> alarms;  // on the strand
  };
  Alarm& AlarmOf(LoopTimer timer) { return shared_->alarms[static_cast<size_t>(timer)]; }

  concurrency::Timers& timers_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace tandem::orchestrator
