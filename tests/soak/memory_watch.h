// Whether a process keeps its memory while it works.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/concurrency/mutex.h"
#include "common/concurrency/notification.h"

namespace tandem::testing {

struct MemorySample {
  double seconds = 0;        // since the first one
  double resident_mib = 0;   // VmRSS
  double allocated_mib = 0;  // in use, of all that malloc gave (mallinfo2)
  int threads = 0;
};

MemorySample SampleMemory();  // now; seconds = 0

// Least squares: MiB per minute by `value`. 0 for fewer than two samples.
double SlopePerMinute(const std::vector<MemorySample>& samples, double MemorySample::*value);

// Samples on a thread of its own, and prints a line of progress with every tenth sample.
class MemoryWatch {
 public:
  MemoryWatch(absl::Duration every, std::function<std::string()> progress);
  ~MemoryWatch();

  // Ends the sampling.
  std::vector<MemorySample> Stop();

 private:
  void Run(absl::Duration every);

  const std::function<std::string()> progress_;
  concurrency::Notification over_;
  std::vector<MemorySample> samples_;  // of the thread until it has ended
  std::thread thread_;
};

// At most `rows` of the samples, evenly chosen, as a table.
std::string ToTable(const std::vector<MemorySample>& samples, size_t rows);

}  // namespace tandem::testing
