// Whether this process finds the memory and the threads that it is about to use. Where it does not,
// libraries abort in the middle of something: better one error at the start that says what is
// required and what there is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tandem::process {

struct MemoryPart {
  std::string name;  // "weights"
  int64_t bytes = 0;
  bool is_written = true;  // else addresses are reserved, and cost memory once they are used
};

// What may be used beyond what is used already.
struct FreeMemory {
  int64_t address_bytes = INT64_MAX;  // of RLIMIT_AS ("ulimit -v")
  int64_t memory_bytes = INT64_MAX;   // of the machine or the control group, whole
};
FreeMemory ThisFreeMemory();

// Bytes that this process has written to and holds. Files that are mapped are not counted.
int64_t WrittenMemory();

// RESOURCE_EXHAUSTED: the parts do not fit; the error has each of them, their sum and what there
// is. `what`: whose they are, such as a directory. `where`: whose memory_bytes are.
absl::Status CheckMemory(
    const std::string& what, const std::vector<MemoryPart>& parts, const FreeMemory& free,
    const char* where = "in the machine or the control group, beside what this process holds");

// What a service takes of addresses beside what it loads: the stacks of its threads, and the heaps
// of its libraries.
MemoryPart ServiceRoom();

// Tries whether a service can run at all, without what it loads: whether it gets its threads, and
// the addresses of ServiceRoom. RESOURCE_EXHAUSTED says what is missing. Where addresses are
// limited, the allocator is told to be sparing with them. Before other threads begin.
absl::Status CheckRoomForService();

// An allocation that fails ends the process with one line and exit code 1, in place of a core.
void ExitWhenOutOfMemory(const char* name);

}  // namespace tandem::process
