// The cores that the passes of several models in one process share, so that together they never run
// more threads than there are cores.
#pragma once

#include <cstdint>

#include "common/concurrency/mutex.h"

namespace tandem::model::cpu {

// Hands out turns in the order of asking. Threads stay the models' own (thread_team.h): the pool
// only says how many of them may run now.
//
// Thread safety: all of it from anywhere. Lifetime: longer than its turns; models hold it by
// shared_ptr, so it goes with the last of them. A thread that holds a turn must not ask for another
// of the same pool: it could wait for itself. A turn is held for one pass, never across waiting for
// anything else.
class ComputePool {
 public:
  explicit ComputePool(int cores) : cores_(cores), free_(cores) {}  // at least 1
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;

  int cores() const { return cores_; }

  // Turns that are asked for and not given yet.
  int waiting() const TANDEM_EXCLUDES(mutex_);

  // While it lives, its holder may compute on cores() threads, its own included.
  class Turn {
   public:
    // Waits until more than half of what it asks for is free, and takes what is. So two passes that
    // could each use the whole machine run one after the other, each at full speed, and a pass that
    // uses few cores of many holds nobody up. `max`, at least 1, is cut to the pool's cores.
    // Without a pool (null) it gives `max` at once.
    Turn(ComputePool* pool, int max);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    int cores() const { return cores_; }

   private:
    ComputePool* const pool_;
    const int cores_;
  };

  // While it lives, its holder may compute on cores() threads beside its own. It takes what is free
  // at this moment, and nothing where somebody waits for a turn; so it never waits.
  class Spare {
   public:
    // `max`: 0 or more. Without a pool (null) it gives `max`.
    Spare(ComputePool* pool, int max);
    ~Spare();
    Spare(const Spare&) = delete;
    Spare& operator=(const Spare&) = delete;

    int cores() const { return cores_; }

   private:
    ComputePool* const pool_;
    const int cores_;
  };

 private:
  int Acquire(int max) TANDEM_EXCLUDES(mutex_);
  int AcquireFree(int max) TANDEM_EXCLUDES(mutex_);
  void Release(int cores) TANDEM_EXCLUDES(mutex_);

  const int cores_;
  mutable concurrency::Mutex mutex_;
  concurrency::CondVar changed_;
  uint64_t next_ticket_ TANDEM_GUARDED_BY(mutex_) = 0;
  uint64_t serving_ TANDEM_GUARDED_BY(mutex_) = 0;  // the ticket whose turn comes next
  int free_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::model::cpu
