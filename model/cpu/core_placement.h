// Where the threads of a team run, as far as Linux lets a program say.
#pragma once

#include <thread>
#include <vector>

namespace tandem::model::cpu {

// Keeps the workers of a team off the core of the thread that they work for. Where no core is idle,
// Linux may put a worker on the core of the thread that wakes it. The two then run one after the
// other, and the pass takes as long as with one thread.
//
// Thread safety: one thread at a time.
class CorePlacement {
 public:
  // The calling thread is on some core: `workers` may use every other one that it may use. Nothing
  // changes while it stays there (it costs some nanoseconds then, microseconds otherwise), nor
  // where there are fewer cores than threads, nor where the system does not allow it.
  void KeepOffThisCore(std::vector<std::thread>& workers);

 private:
  int core_ = -1;  // that the workers are kept off; -1: none yet
};

// The calling thread asks for time slices of 0.1 ms, the shortest there are. A thread with shorter
// slices than the running one takes the core as soon as it wakes up; otherwise it may wait for the
// next tick, 1 to 10 ms, even for a thread of less priority. Its share of the core stays the same.
// Linux 6.12 and later heed it (sched_setattr(2), sched_runtime of SCHED_OTHER).
void AskForShortSlices();

}  // namespace tandem::model::cpu
