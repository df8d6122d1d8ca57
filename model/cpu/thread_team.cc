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
// Then the core is offered to whoever waits for one, and at last given up: a member that sleeps is
// woken on a core that is free.
constexpr int kYields = 200;
// The team is crowded when it has lost so many runs of member 0 alone. One run, however disturbed,
// loses at most as many; good runs save up as many.
constexpr double kMaxLost = 1;
// Runs alone then; doubled until the team has gained as much.
constexpr int kMinAlone = 8;
constexpr int kMaxAlone = 256;

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Both wrap around. Whoever comes first to the next barrier counts there already.
bool AllArrived(uint32_t arrivals, uint32_t wanted) {
  return static_cast<int32_t>(arrivals - wanted) >= 0;
}

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void RunAlone::Ran(int members, int64_t total, int64_t waited) {
  // Alone, member 0 would have done every member's work.
  const auto busy = static_cast<double>(std::max<int64_t>(total - waited, 1));
  const double lost = std::min(static_cast<double>(total) / (members * busy) - 1, kMaxLost);
  lost_ = std::max(lost_ + lost, -kMaxLost);
  if (lost_ <= -kMaxLost) again_ = 0;
  if (lost_ < kMaxLost) return;
  lost_ = 0;
  again_ = std::min(std::max(2 * again_, kMinAlone), kMaxAlone);
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
  placement_.KeepOffThisCore(workers_);
  begun_ = Now();
  waited_ = 0;
  // All arrived at the last run's end: the count stands still, and everyone starts from it.
  const uint32_t arrivals = arrivals_.load(std::memory_order_relaxed);
  for (int member = 0; member < active_; ++member) members_[member].wanted = arrivals;
  for (int member = 1; member < active_; ++member) Wake(member);
}

void ThreadTeam::End() {
  if (policy_ == Policy::kAloneWhenCrowded) alone_.Ran(active_, Now() - begun_, waited_);
}

void ThreadTeam::Barrier(int member) {
  if (active_ == 1) return;
  Member& me = members_[member];
  me.wanted += static_cast<uint32_t>(active_);
  const uint32_t wanted = me.wanted;
  // In one order with the count of those that sleep, which notify_all reads: nobody is forgotten.
  if (arrivals_.fetch_add(1, std::memory_order_seq_cst) + 1 == wanted) {
    arrivals_.notify_all();
    return;
  }
  for (int i = 0; i < me.spins; ++i) {
    if (AllArrived(arrivals_.load(std::memory_order_acquire), wanted)) {
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

void ThreadTeam::WaitLong(uint32_t wanted) {
  uint32_t arrivals = arrivals_.load(std::memory_order_acquire);
  for (int i = 0; !AllArrived(arrivals, wanted); ++i) {
    if (i < kYields) {
      sched_yield();
    } else {
      arrivals_.wait(arrivals, std::memory_order_acquire);
    }
    arrivals = arrivals_.load(std::memory_order_acquire);
  }
}

void ThreadTeam::Work(int member) {
  AskForShortSlices();
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
