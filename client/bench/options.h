// What `tandem bench` is told, and the prompts it runs.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/bench/records.h"
#include "client/common/orchestrator_flags.h"
#include "client/common/sampling_flags.h"
#include "common/flags/flag_set.h"

namespace tandem::client {

struct BenchOptions {
  OrchestratorFlags orchestrator;
  std::string prompts_file;  // empty: built-in prompts
  uint64_t prompts = 0;      // only the first so many; 0 = all
  uint64_t max_tokens = 64;
  uint64_t repeats = 3;  // pairs of requests a prompt; runs of each mode; pairs of --idle
  SamplingFlags sampling;
  bool json = false;

  // With these, many requests at once instead of pairs.
  std::vector<uint32_t> concurrency;         // requests at once, a table each; empty: pairs
  std::vector<BenchMode> modes;              // distinct; empty: off, 2, 4
  absl::Duration window = absl::Seconds(4);  // of one run, at least

  // Instead of pairs: the first token after a silence beside that of a busy system.
  bool idle = false;
  absl::Duration silence = absl::Seconds(2);

  BenchOptions();  // temperature 0, so that both of a pair write the same text
  void AddTo(flags::FlagSet& flags);
  // INVALID_ARGUMENT naming the flag and what would be right.
  absl::Status Validate() const;
  std::vector<BenchMode> Modes() const;  // never empty
};

// "1,8,64": whole numbers, 1 to 4096, rising. INVALID_ARGUMENT names the flag.
inline constexpr uint32_t kMaxConcurrency = 4096;
absl::StatusOr<std::vector<uint32_t>> ParseConcurrency(absl::string_view text);

// "off,2,auto": distinct; off, auto or 1 to 16 each. INVALID_ARGUMENT names the flag.
absl::StatusOr<std::vector<BenchMode>> ParseModes(absl::string_view text);

// Some beginnings of stories and of technical prose.
std::vector<std::string> BuiltInPrompts();

// One prompt a line; a line that begins with { is a JSON object with "prompt". Empty lines do not
// count. INVALID_ARGUMENT names file and line.
absl::StatusOr<std::vector<std::string>> ParsePrompts(absl::string_view text,
                                                      absl::string_view file);

}  // namespace tandem::client
