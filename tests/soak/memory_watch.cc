#include "tests/soak/memory_watch.h"

#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/check.h"

namespace tandem::testing {
namespace {

constexpr int kSamplesALine = 10;

int64_t ProcessNumber(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::stoll(line.substr(field.size() + 1));
  }
  TANDEM_CHECK(false) << "no " << field << " in /proc/self/status";
  return 0;
}

}  // namespace

MemorySample SampleMemory() {
  constexpr double kMiB = 1024 * 1024;
  const struct mallinfo2 info = mallinfo2();
  return {0, static_cast<double>(ProcessNumber("VmRSS")) / 1024,
          static_cast<double>(info.uordblks + info.hblkhd) / kMiB,
          static_cast<int>(ProcessNumber("Threads"))};
}

double SlopePerMinute(const std::vector<MemorySample>& samples, double MemorySample::*value) {
  if (samples.size() < 2) return 0;
  double mean_x = 0, mean_y = 0, xy = 0, xx = 0;
  for (const MemorySample& sample : samples) {
    mean_x += sample.seconds / static_cast<double>(samples.size());
    mean_y += sample.*value / static_cast<double>(samples.size());
  }
  for (const MemorySample& sample : samples) {
    xy += (sample.seconds - mean_x) * (sample.*value - mean_y);
    xx += (sample.seconds - mean_x) * (sample.seconds - mean_x);
  }
  return xx == 0 ? 0 : xy / xx * 60;
}

MemoryWatch::MemoryWatch(absl::Duration every, std::function<std::string()> progress)
    : progress_(std::move(progress)), thread_([this, every] { Run(every); }) {}

MemoryWatch::~MemoryWatch() {
  if (thread_.joinable()) Stop();
}

std::vector<MemorySample> MemoryWatch::Stop() {
  over_.Notify();
  thread_.join();
  return samples_;
}

void MemoryWatch::Run(absl::Duration every) {
  const absl::Time begin = absl::Now();
  do {
    samples_.push_back(SampleMemory());
    samples_.back().seconds = absl::ToDoubleSeconds(absl::Now() - begin);
    if (samples_.size() % kSamplesALine != 0) continue;
    const MemorySample& now = samples_.back();
    std::printf("  %4.0f s  %s  resident %.0f MiB, allocated %.1f\n", now.seconds,
                progress_().c_str(), now.resident_mib, now.allocated_mib);
    std::fflush(stdout);
  } while (!over_.WaitFor(every));
}

std::string ToTable(const std::vector<MemorySample>& samples, size_t rows) {
  std::string text = "  second   resident MiB   allocated MiB   threads\n";
  const size_t count = std::min(rows, samples.size());
  for (size_t i = 0; i < count; ++i) {
    const size_t at = count == 1 ? 0 : i * (samples.size() - 1) / (count - 1);
    const MemorySample& sample = samples[at];
    absl::StrAppendFormat(&text, "  %6.0f   %12.1f   %13.2f   %7d\n", sample.seconds,
                          sample.resident_mib, sample.allocated_mib, sample.threads);
  }
  return text;
}

}  // namespace tandem::testing
