// A fixed set of threads that run one function together, with barriers between its phases.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "model/cpu/core_placement.h"

namespace tandem::model::cpu {

// When a team is worth its waiting. Where the others get no core (two services share two), a run by
// member 0 alone is quicker than waiting for them; after some of these the team is tried again.
//
// One run says little: whatever else wakes up takes a core for a moment, and a run of 10 ms may
// wait for most of it. So what the team loses against member 0 alone is summed up, and what it
// gains is taken off.
class RunAlone {
 public:
  // Asked before each run.
  bool Next() { return left_ > 0 && left_-- > 0; }
  // Whether the next run is alone.
  bool alone() const { return left_ > 0; }

  // After a run of the whole team of which member 0 waited `waited` of `total` nanoseconds.
  void Ran(int members, int64_t total, int64_t waited);

 private:
  int left_ = 0;     // runs alone until the next try
  int again_ = 0;    // how many those were
  double lost_ = 0;  // by the team, in runs of member 0 alone; negative: gained
};

// Thread safety: Wanted, Ready and the runs from one thread at a time (not always the same);
// Barrier only inside the function that is run. Destruction, when no run is under way, ends the
// threads and waits for them. The caller of Run is member 0; a team of one has no threads and no
// synchronisation at all.
//
// Waiting: a member spins for some microseconds, then yields, then sleeps until the last one comes,
// so that a member without a core gets one (two services may share two cores). Between runs the
// workers sleep after a short spin.
//
// Cores: workers are kept off the core of member 0, and ask for short time slices
// (core_placement.h).
class ThreadTeam {
 public:
  enum class Policy { kAlwaysAll, kAloneWhenCrowded };

  explicit ThreadTeam(int threads, Policy policy = Policy::kAlwaysAll);  // at least 1
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }

  // How many members the next run should have: size(), or 1 where the policy has member 0 run
  // alone. Asked once before each run.
  int Wanted() { return size_ == 1 || alone_.Next() ? 1 : size_; }

  // How many members RunUneven should have; no run is counted by asking.
  int Ready() const { return size_ == 1 || alone_.alone() ? 1 : size_; }

  // Members of the present run. Results must not depend on it.
  int active() const { return active_; }

  // Calls function(member) on members 0 to members - 1, and returns when all have returned. The
  // other members sleep on. members: 1 to size().
  template <class Function>
  void Run(Function& function, int members) {
    RunUneven(function, members);
    if (members > 1) End();
  }

  // The same for work whose shares differ: that member 0 waits does not show that the others have
  // no core, so Wanted does not learn from it.
  template <class Function>
  void RunUneven(Function& function, int members) {
    active_ = members;
    if (active_ == 1) {
      function(0);
      return;
    }
    call_ = [](void* f, int member) { (*static_cast<Function*>(f))(member); };
    argument_ = &function;
    Begin();
    function(0);
    Barrier(0);
  }

  // Returns when every member has called it; what they wrote before is seen by all after.
  void Barrier(int member);

 private:
  struct alignas(64) Member {
    std::atomic<uint32_t> run{0};  // rises with each run that it is part of, and once to stop
    uint32_t wanted = 0;           // arrivals at the last barrier that it came to
    int spins = 500;               // before it yields; adapts to whether the others have cores
  };

  void Begin();
  void Wake(int member);
  void End();
  void WaitLong(uint32_t wanted);
  void Work(int member);

  const int size_;
  const Policy policy_;
  int active_ = 1;
  RunAlone alone_;
  CorePlacement placement_;  // of the workers
  int64_t begun_ = 0;        // nanoseconds of the steady clock
  int64_t waited_ = 0;       // by member 0 in this run, beyond spinning
  void (*call_)(void*, int) = nullptr;
  void* argument_ = nullptr;
  alignas(64) std::atomic<uint32_t> arrivals_{0};  // wraps around
  alignas(64) std::atomic<bool> stopping_{false};
  std::vector<Member> members_;  // made once, never moved
  std::vector<std::thread> workers_;
};

}  // namespace tandem::model::cpu
