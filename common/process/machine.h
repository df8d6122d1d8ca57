// What of the machine this process may use. In a container that is less than the machine has.
//
// Thread safety: pure functions of the machine's files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tandem::process {

// What control groups allow, all that this process is in taken together. Absent: no limit.
struct CgroupLimits {
  std::optional<double> cpus;  // a share of time: 1.5 is one and a half cores, all the time
  std::optional<int64_t> memory_bytes;  // at least 1
};

// Of version 2 (cpu.max, memory.max) and version 1 (cpu.cfs_quota_us, memory.limit_in_bytes), from
// this process's group up to the root that it can see; the tightest one counts. `root`: where proc/
// and sys/ are. What is not there, cannot be read or makes no sense limits nothing: a machine
// without control groups has no such files.
CgroupLimits ReadCgroupLimits(const std::string& root = "/");

struct Machine {
  int cpus = 1;              // at least 1
  int64_t memory_bytes = 0;  // of this process and all else that shares its limit
};

// The tightest of what there is. A share of a core counts as one: 2.5 are 3, of which one is often
// waiting.
Machine Within(const CgroupLimits& limits, int cpus, int64_t memory_bytes);

// Of the CPUs that the scheduler gives this thread, and the memory that is built in.
Machine ThisMachine();

}  // namespace tandem::process
