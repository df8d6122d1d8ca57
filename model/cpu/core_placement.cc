#include "model/cpu/core_placement.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace tandem::model::cpu {
namespace {

constexpr uint64_t kSliceNanoseconds = 100'000;

// struct sched_attr, which the C library does not have before version 2.41: its first version.
struct SchedulingAttributes {
  uint32_t size = 0;
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0;  // of SCHED_OTHER: a time slice
  uint64_t deadline = 0;
  uint64_t period = 0;
};

}  // namespace

void CorePlacement::KeepOffThisCore(std::vector<std::thread>& workers) {
  const int core = sched_getcpu();
  if (core < 0 || core == core_) return;
  core_ = core;
  // Read anew each time: an operator may give the process other cores while it runs.
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return;
  if (static_cast<size_t>(CPU_COUNT(&cores)) <= workers.size()) return;
  CPU_CLR(core, &cores);
  for (std::thread& worker : workers) {
    pthread_setaffinity_np(worker.native_handle(), sizeof(cores), &cores);
  }
}

void AskForShortSlices() {
  // What else is set (niceness, policy) stays as the operator chose it.
  SchedulingAttributes attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtime = kSliceNanoseconds;
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace tandem::model::cpu
