#include "bench/serving/turns.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "tests/integration/models.h"
#include "tests/integration/requests.h"

namespace tandem::testing {
namespace {

void Measure(Measured& variant, const std::vector<v1::GenerateRequest>& requests, int at_once) {
  const double processor_time = ProcessorTime(variant.processes);
  const auto began = std::chrono::steady_clock::now();
  size_t tokens = 0;
  for (const Reply& reply : SendAll(variant.channel, requests, at_once)) {
    TANDEM_CHECK_OK(reply.status);
    tokens += reply.ids.size();
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - began;
  const auto count = static_cast<double>(tokens);
  variant.tokens_per_second.push_back(count / time.count());
  variant.tokens_per_processor_second.push_back(
      count / (ProcessorTime(variant.processes) - processor_time));
}

// Of n sorted values the median lies between those of this index and of n - 1 - it, with 95 %: as
// many or fewer values below the median have a chance of at most 2.5 % (Binomial(n, 1/2)).
size_t LowerIndex(size_t n) {
  double probability = std::pow(0.5, static_cast<double>(n));  // of exactly k = 0
  double below = 0;
  for (size_t k = 0; k < n; ++k) {
    below += probability;
    if (below > 0.025) return k - 1;
    probability *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return 0;
}

void ReportOne(const std::string& name, const std::vector<double>& variant,
               const std::vector<double>& off) {
  std::vector<double> ratios;
  for (size_t i = 0; i < off.size(); ++i) ratios.push_back(variant[i] / off[i]);
  std::sort(ratios.begin(), ratios.end());
  const size_t n = ratios.size();
  const size_t low = LowerIndex(n);
  const double min = ratios[low];
  const double max = ratios[n - 1 - low];
  std::printf("%-10s %7.3f %7.3f %7.3f   %.3f to %.3f   %+.1f %% (%+.1f to %+.1f)\n", name.c_str(),
              ratios.front(), ratios[n / 2], ratios.back(), min, max, 100 * (1 - ratios[n / 2]),
              100 * (1 - max), 100 * (1 - min));
}

}  // namespace

double ProcessorTime(const std::set<int>& processes) {
  double seconds = 0;
  for (int pid : processes) {
    const auto tasks = absl::StrCat("/proc/", pid, "/task");
    for (const auto& task : std::filesystem::directory_iterator(tasks)) {
      std::ifstream file(task.path() / "schedstat");
      double nanoseconds = 0;
      if (file >> nanoseconds) seconds += nanoseconds / 1e9;
    }
  }
  return seconds;
}

std::set<int> Children() {
  std::set<int> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    std::ifstream file(entry.path() / "stat");
    std::string line;
    std::getline(file, line);
    int parent = 0;
    char state = 0;
    const size_t name_end = line.rfind(')');
    if (name_end == std::string::npos) continue;
    if (std::sscanf(line.c_str() + name_end + 1, " %c %d", &state, &parent) == 2 &&
        parent == getpid()) {
      children.insert(pid);
    }
  }
  return children;
}

std::vector<v1::GenerateRequest> TenRequests(uint32_t tokens) {
  std::vector<v1::GenerateRequest> requests;
  const auto tokenizer = LoadTokenizer(DemoTarget());
  for (const std::string& prompt : TenPrompts()) {
    requests.push_back(GreedyRequest(*tokenizer->Encode(prompt), tokens, 4));
    requests.back().mutable_stop()->set_ignore_eos(true);
  }
  return requests;
}

void MeasureInTurn(absl::Span<Measured* const> variants,
                   const std::vector<v1::GenerateRequest>& requests, int turns, int at_once) {
  for (Measured* variant : variants) {  // warms up
    Measure(*variant, requests, at_once);
    variant->tokens_per_second.clear();
    variant->tokens_per_processor_second.clear();
  }
  for (int turn = 0; turn < turns; ++turn) {
    for (size_t i = 0; i < variants.size(); ++i) {
      Measure(*variants[(static_cast<size_t>(turn) + i) % variants.size()], requests, at_once);
    }
    if ((turn + 1) % 10 == 0) std::fprintf(stderr, "turn %d of %d\n", turn + 1, turns);
  }
}

void Report(const Measured& base, absl::Span<const Measured* const> others) {
  const auto report = [&](const char* what, std::vector<double> Measured::*values) {
    std::vector<double> sorted = base.*values;
    std::sort(sorted.begin(), sorted.end());
    std::printf("%s: %.0f with \"%s\"; beside that\n%-10s %7s %7s %7s   %-14s   %s\n", what,
                sorted[sorted.size() / 2], base.name.c_str(), "ratio", "least", "median", "most",
                "median, 95 %", "costs (95 %)");
    for (const Measured* variant : others) {
      ReportOne(variant->name, variant->*values, base.*values);
    }
  };
  report("tokens a second", &Measured::tokens_per_second);
  report("tokens a second of processor time", &Measured::tokens_per_processor_second);
}

int RunTurns(int argc, char** argv, int (*run)(int turns, int at_once, uint32_t tokens)) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 60;
  const int at_once = argc > 2 ? std::atoi(argv[2]) : 4;
  const int tokens = argc > 3 ? std::atoi(argv[3]) : 120;
  if (turns < 6 || at_once < 1 || tokens < 1) {
    std::fprintf(stderr, "usage: %s [turns, at least 6] [at once] [tokens a request]\n", argv[0]);
    return 2;
  }
  return run(turns, at_once, static_cast<uint32_t>(tokens));
}

}  // namespace tandem::testing
