#include "model/cpu/thread_team.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

namespace tandem::model::cpu {
namespace {

// Some 15 µs of pauses: longer than the phases of a small model differ, shorter than a time slice.
constexpr int kMaxSpins = 500;
// Where spinning was in vain (the others have no core), a member soon spins hardly at all.
constexpr int kMinSpins = 8;
constexpr int kMoreSpins = 8;  // after each barrier that spinning was enough for
// Then the core is offered to whoever waits for one, and at last left alone for a while.
constexpr int kYields = 200;
constexpr std::chrono::microseconds kNap{50};
// Runs alone after a crowded one; doubled while the tries stay crowded.
constexpr int kMinAlone = 8;
constexpr int kMaxAlone = 256;

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void RunAlone::Ran(int members, int64_t total, int64_t waited) {
  // Alone, member 0 would have done every member's work.
  const bool crowded = waited > (members - 1) * (total - waited);
  again_ = crowded ? std::min(std::max(2 * again_, kMinAlone), kMaxAlone) : 0;
  left_ = again_;
}

ThreadTeam::ThreadTeam(int threads, Policy policy)
    : size_(threads), policy_(policy), members_(threads) {
  workers_.reserve(threads - 1);
  for (int member = 1; member < threads; ++member) {
    workers_.emplace_back([this, member] { Work(member); });
  }
}

ThreadTeam::~ThreadTeam() {
  stopping_.store(true, std::memory_order_relaxed);
  for (int member = 1; member < size_; ++member) Wake(member);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::Wake(int member) {
  members_[member].run.fetch_add(1, std::memory_order_release);
  members_[member].run.notify_one();
}

void ThreadTeam::Begin() {
  begun_ = Now();
  waited_ = 0;
  // All arrived at the last run's end: the count stands still, and everyone starts from it.
  const uint64_t arrivals = arrivals_.load(std::memory_order_relaxed);
  for (int member = 0; member < active_; ++member) members_[member].wanted = arrivals;
  for (int member = 1; member < active_; ++member) Wake(member);
}

void ThreadTeam::End() {
  if (policy_ == Policy::kAloneWhenCrowded) alone_.Ran(active_, Now() - begun_, waited_);
}

void ThreadTeam::Barrier(int member) {
  if (active_ == 1) return;
  Member& me = members_[member];
  me.wanted += static_cast<uint64_t>(active_);
  const uint64_t wanted = me.wanted;
  if (arrivals_.fetch_add(1, std::memory_order_acq_rel) + 1 >= wanted) return;
  for (int i = 0; i < me.spins; ++i) {
    if (arrivals_.load(std::memory_order_acquire) >= wanted) {
      me.spins = std::min(me.spins + kMoreSpins, kMaxSpins);
      return;
    }
    Pause();
  }
  me.spins = std::max(me.spins / 2, kMinSpins);
  const int64_t start = member == 0 ? Now() : 0;
  WaitLong(wanted);
  if (member == 0) waited_ += Now() - start;
}

void ThreadTeam::WaitLong(uint64_t wanted) {
  for (int i = 0; arrivals_.load(std::memory_order_acquire) < wanted; ++i) {
    if (i < kYields) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

void ThreadTeam::Work(int member) {
  Member& me = members_[member];
  uint32_t seen = 0;
  while (true) {
    for (int i = 0; i < me.spins && me.run.load(std::memory_order_acquire) == seen; ++i) Pause();
    me.run.wait(seen, std::memory_order_acquire);
    ++seen;
    if (stopping_.load(std::memory_order_relaxed)) return;
    call_(argument_, member);
    Barrier(member);
  }
}

}  // namespace tandem::model::cpu
