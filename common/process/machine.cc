#include "common/process/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tandem::process {
namespace {

// Version 1 says "no limit" by a number near 2^63, rounded to pages.
constexpr int64_t kNoLimit = int64_t{1} << 60;

std::vector<std::string> Lines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The words of a file's only line; none where it cannot be read.
std::vector<std::string> Words(const std::string& path) {
  const std::vector<std::string> lines = Lines(path);
  if (lines.empty()) return {};
  return absl::StrSplit(lines[0], absl::ByAnyChar(" \t"), absl::SkipEmpty());
}

std::optional<int64_t> Positive(const std::string& word) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(word, &number) || number <= 0) return std::nullopt;
  return number;
}

std::optional<int64_t> PositiveIn(const std::string& path) {
  const std::vector<std::string> words = Words(path);
  return words.size() == 1 ? Positive(words[0]) : std::nullopt;
}

template <typename T>
void Tighten(std::optional<T>& limit, const std::optional<T>& other) {
  if (other.has_value() && (!limit.has_value() || *other < *limit)) limit = other;
}

std::optional<double> Share(const std::optional<int64_t>& quota,
                            const std::optional<int64_t>& period) {
  if (!quota.has_value() || !period.has_value()) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

void TightenMemory(const std::optional<int64_t>& bytes, CgroupLimits& limits) {
  if (bytes.has_value() && *bytes < kNoLimit) Tighten(limits.memory_bytes, bytes);
}

// One folder's. "max 100000" and "max" are numbers of nothing: no limit.
void Version2(const std::string& folder, CgroupLimits& limits) {
  const std::vector<std::string> words = Words(absl::StrCat(folder, "/cpu.max"));
  if (words.size() == 2) Tighten(limits.cpus, Share(Positive(words[0]), Positive(words[1])));
  TightenMemory(PositiveIn(absl::StrCat(folder, "/memory.max")), limits);
}

void Version1Cpu(const std::string& folder, CgroupLimits& limits) {
  Tighten(limits.cpus, Share(PositiveIn(absl::StrCat(folder, "/cpu.cfs_quota_us")),
                             PositiveIn(absl::StrCat(folder, "/cpu.cfs_period_us"))));
}

void Version1Memory(const std::string& folder, CgroupLimits& limits) {
  TightenMemory(PositiveIn(absl::StrCat(folder, "/memory.limit_in_bytes")), limits);
}

// Where a hierarchy of control groups can be seen.
struct Mount {
  std::string root;                      // the group that is at...
  std::string point;                     // ...this folder
  std::vector<std::string> controllers;  // version 1
  bool version2 = false;
};

// A line of /proc/self/mountinfo: "ID PARENT DEVICE ROOT POINT OPTIONS [TAGS...] - TYPE SOURCE
// OPTIONS".
std::vector<Mount> Mounts(const std::string& root) {
  std::vector<Mount> mounts;
  for (const std::string& line : Lines(absl::StrCat(root, "proc/self/mountinfo"))) {
    const std::pair<std::string, std::string> halves =
        absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    const std::vector<std::string> where = absl::StrSplit(halves.first, ' ');
    const std::vector<std::string> what = absl::StrSplit(halves.second, ' ');
    if (where.size() < 6 || what.size() < 3) continue;
    const bool version2 = what[0] == "cgroup2";
    if (!version2 && what[0] != "cgroup") continue;
    mounts.push_back({where[3], where[4], absl::StrSplit(what[2], ','), version2});
  }
  return mounts;
}

// From the folder of `group` up to the mount's own. A group that is not below the mount's is out of
// sight, as with a container that sees its own group as the root; then the mount's is the one.
template <typename Look>
void WalkUp(const std::string& root, const Mount& mount, absl::string_view group,
            const Look& look) {
  absl::string_view below = group;
  if (mount.root != "/" && !absl::ConsumePrefix(&below, mount.root)) below = "";
  if (!below.empty() && below[0] != '/') below = "";
  std::string point = mount.point.substr(1);
  while (true) {
    while (absl::EndsWith(below, "/")) below.remove_suffix(1);
    look(absl::StrCat(root, point, below));
    if (below.empty()) return;
    below = below.substr(0, below.rfind('/'));
  }
}

bool Has(const std::vector<std::string>& list, absl::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

int SchedulersCpus() {
  cpu_set_t set;  // of 1,024; a larger machine's is refused
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

CgroupLimits ReadCgroupLimits(const std::string& root) {
  const std::string base = absl::EndsWith(root, "/") ? root : absl::StrCat(root, "/");
  const std::vector<Mount> mounts = Mounts(base);
  CgroupLimits limits;
  // "ID:CONTROLLERS:GROUP"; version 2 has "0::GROUP".
  for (const std::string& line : Lines(absl::StrCat(base, "proc/self/cgroup"))) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !absl::StartsWith(parts[2], "/")) continue;
    const bool version2 = parts[0] == "0" && parts[1].empty();
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    for (const Mount& mount : mounts) {
      if (mount.version2 != version2) continue;
      WalkUp(base, mount, parts[2], [&](const std::string& folder) {
        if (version2) return Version2(folder, limits);
        if (Has(controllers, "cpu") && Has(mount.controllers, "cpu")) Version1Cpu(folder, limits);
        if (Has(controllers, "memory") && Has(mount.controllers, "memory")) {
          Version1Memory(folder, limits);
        }
      });
    }
  }
  return limits;
}

Machine Within(const CgroupLimits& limits, int cpus, int64_t memory_bytes) {
  Machine machine{std::max(1, cpus), memory_bytes};
  if (limits.cpus.has_value() && *limits.cpus < machine.cpus) {
    machine.cpus = std::max(1, static_cast<int>(std::ceil(*limits.cpus)));
  }
  if (limits.memory_bytes.has_value()) {
    machine.memory_bytes = std::min(machine.memory_bytes, *limits.memory_bytes);
  }
  return machine;
}

Machine ThisMachine() {
  const int64_t memory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  return Within(ReadCgroupLimits(), SchedulersCpus(), memory);
}

}  // namespace tandem::process
