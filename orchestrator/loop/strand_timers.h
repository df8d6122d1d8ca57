// The loop's alarms on real timers. An alarm fires on the request's strand, and never after it was
// replaced or cancelled.
//
// A round sets two alarms and cancels both, and almost none of them ever fires. So the real timer
// of a long alarm stays where it is when the alarm is moved to a later time or cancelled. When the
// timer fires, it checks whether an alarm is due, and if not it is set again for the rest of the
// time. The real timer of a short alarm is cancelled, because it would fire so often that waking
// the timers' thread costs more than cancelling.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "orchestrator/request/loop_timers.h"

namespace tandem::orchestrator {

// Used on the strand only.
class StrandTimers final : public LoopTimers {
 public:
  // `post` brings a function from the timers' thread to the strand. It must be harmless after the
  // function's subject has ended. `fire` is called on the strand. The timers run on `timers` and
  // `clock`, which outlive all posted functions.
  StrandTimers(concurrency::Timers& timers, const concurrency::Clock& clock,
               std::function<void(std::function<void()>)> post, std::function<void(LoopTimer)> fire)
      : shared_(std::make_shared<Shared>(timers, clock, std::move(post), std::move(fire))) {}
  ~StrandTimers() override {
    for (Alarm& alarm : shared_->alarms) {
      alarm.due = concurrency::Instant::InfiniteFuture();
      if (alarm.id != 0) shared_->timers.Cancel(alarm.id);
    }
  }

  void Set(LoopTimer timer, absl::Duration delay) override {
    Alarm& alarm = AlarmOf(timer);
    alarm.due = shared_->clock.Now() + std::max(delay, absl::ZeroDuration());
    if (alarm.id != 0 && alarm.is_long && alarm.real_due <= alarm.due) return;
    if (alarm.id != 0) shared_->timers.Cancel(alarm.id);
    Shared::Arm(shared_, timer);
  }

  void Cancel(LoopTimer timer) override {
    Alarm& alarm = AlarmOf(timer);
    alarm.due = concurrency::Instant::InfiniteFuture();
    if (alarm.id == 0 || alarm.is_long) return;
    ++alarm.generation;
    shared_->timers.Cancel(std::exchange(alarm.id, 0));
  }

  static constexpr absl::Duration kLong = absl::Milliseconds(250);

 private:
  struct Alarm {
    concurrency::Instant due = concurrency::Instant::InfiniteFuture();  // infinite: not set
    // The real timer; 0: none is set.
    concurrency::TimerId id = 0;
    concurrency::Instant real_due;
    bool is_long = false;
    uint64_t generation = 0;  // the real timer's; an older generation is stale
  };
  struct Shared {
    Shared(concurrency::Timers& real, const concurrency::Clock& now,
           std::function<void(std::function<void()>)> to_strand,
           std::function<void(LoopTimer)> to_loop)
        : timers(real), clock(now), post(std::move(to_strand)), fire(std::move(to_loop)) {}

    static void Arm(const std::shared_ptr<Shared>& shared, LoopTimer timer) {
      Alarm& alarm = shared->alarms[static_cast<size_t>(timer)];
      alarm.real_due = alarm.due;
      const absl::Duration delay = alarm.due - shared->clock.Now();
      alarm.is_long = delay >= kLong;
      const uint64_t generation = ++alarm.generation;
      alarm.id = shared->timers.After(delay, [shared, timer, generation] {
        shared->post([shared, timer, generation] { OnReal(shared, timer, generation); });
      });
    }

    static void OnReal(const std::shared_ptr<Shared>& shared, LoopTimer timer,
                       uint64_t generation) {
      Alarm& alarm = shared->alarms[static_cast<size_t>(timer)];
      if (alarm.generation != generation) return;
      alarm.id = 0;
      if (alarm.due == concurrency::Instant::InfiniteFuture()) return;  // taken back
      if (alarm.due > shared->clock.Now()) return Arm(shared, timer);
      alarm.due = concurrency::Instant::InfiniteFuture();
      shared->fire(timer);
    }

    concurrency::Timers& timers;
    const concurrency::Clock& clock;
    const std::function<void(std::function<void()>)> post;
    const std::function<void(LoopTimer)> fire;
    std::array<Alarm, kLoopTimers> alarms;  // on the strand
  };
  Alarm& AlarmOf(LoopTimer timer) { return shared_->alarms[static_cast<size_t>(timer)]; }

  const std::shared_ptr<Shared> shared_;
};

}  // namespace tandem::orchestrator
