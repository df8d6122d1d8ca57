#include "common/telemetry/metrics_text.h"

#include <time.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/telemetry/metrics.h"
#include "prometheus/text_serializer.h"

namespace tandem::telemetry {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");  // pages: all, resident, …
  double all = 0;
  double resident = 0;
  statm >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// Ticks since the machine's start, out of /proc/self/stat: the 22nd field. The second one is the
// program's name in parentheses, which may have any character in it.
double StartTicks() {
  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(line).substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kStart = 22 - 3;  // the third field is the first after the name
  double ticks = 0;
  if (fields.size() > kStart && absl::SimpleAtod(fields[kStart], &ticks)) return ticks;
  return 0;
}

// Seconds from 1970 to the machine's start.
double BootSeconds() {
  std::ifstream stat("/proc/stat");
  for (std::string line; std::getline(stat, line);) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    double seconds = 0;
    if (field.first == "btime" && absl::SimpleAtod(field.second, &seconds)) return seconds;
  }
  return 0;
}

double StartSeconds() {
  static const double start =
      BootSeconds() + StartTicks() / static_cast<double>(sysconf(_SC_CLK_TCK));
  return start;
}

void AddLabel(const std::string& name, const std::string& value,
              std::vector<MetricFamily>& families) {
  for (MetricFamily& family : families) {
    for (prometheus::ClientMetric& series : family.metric) series.label.push_back({name, value});
  }
}

}  // namespace

std::string MetricsText(std::vector<MetricFamily> families, const ProcessInfo& process) {
  if (!process.model_name.empty()) AddLabel("model_name", process.model_name, families);
  MetricFamily build =
      SingleValue("tandem:build_info", "Which build this process is.", MetricType::Gauge, 1);
  build.metric[0].label = {
      {"service", process.service}, {"version", process.version}, {"instance", process.instance}};
  families.push_back(std::move(build));
  families.push_back(SingleValue("process_cpu_seconds_total",
                                 "Processor time of the process, user and system, in seconds.",
                                 MetricType::Counter, CpuSeconds()));
  families.push_back(SingleValue("process_resident_memory_bytes", "Memory of the process in bytes.",
                                 MetricType::Gauge, ResidentBytes()));
  families.push_back(SingleValue("process_start_time_seconds",
                                 "When the process began, in seconds since 1970.",
                                 MetricType::Gauge, StartSeconds()));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace tandem::telemetry
