// A fixed set of threads that run one function together, with barriers between its phases.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace tandem::model::cpu {

// Thread safety: Run from one thread at a time; Barrier only inside the function that Run runs.
// The caller of Run is member 0; a team of one has no threads and no synchronisation at all.
//
// Waiting: a member spins for some microseconds, then yields, then naps, so that a member without a
// core gets one (two services may share two cores). Between runs the workers sleep after a short
// spin.
class ThreadTeam {
 public:
  explicit ThreadTeam(int threads);  // at least 1
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }

  // Calls function(member) on every member, and returns when all have returned.
  template <class Function>
  void Run(Function& function) {
    if (size_ == 1) {
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
  struct alignas(64) Phase {
    uint64_t passed = 0;  // barriers that this member has passed
    int spins = 500;      // before it yields; adapts to whether the others have cores
  };

  void Begin();
  void Work(int member);

  const int size_;
  void (*call_)(void*, int) = nullptr;
  void* argument_ = nullptr;
  alignas(64) std::atomic<uint64_t> arrivals_{0};
  alignas(64) std::atomic<uint32_t> run_{0};  // rises with each Run, and once to stop
  std::atomic<bool> stopping_{false};
  std::vector<Phase> phases_;
  std::vector<std::thread> workers_;
};

}  // namespace tandem::model::cpu
