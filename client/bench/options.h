// The options of `tandem bench`, and the prompts it runs.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/bench/records.h"
#include "client/common/orchestrator_flags.h"
#include "client/common/request_flags.h"
#include "common/flags/flag_set.h"

namespace tandem::client {

struct BenchOptions {
  OrchestratorFlags orchestrator;
  std::string prompts_file;  // empty: built-in prompts
  std::string chat_file;     // conversations in their place; empty: none
  uint64_t prompts = 0;      // number of prompts, from the first; 0 = all
  uint64_t max_tokens = 64;
  uint64_t repeats = 3;  // pairs of requests per prompt; runs of each mode; pairs of --idle
  RequestFlags request;
  bool json = false;
  std::optional<BenchMode> against;  // what each request of the pairs is compared with; absent: off

  // For the load mode, which runs many requests at once instead of pairs.
  std::vector<uint32_t> concurrency;         // requests at once, a table each; empty: pairs
  std::vector<BenchMode> modes;              // distinct; empty: off, 2, 4
  absl::Duration window = absl::Seconds(4);  // least length of a run

  // For the idle mode, which compares the time to first token after a silence with that of a busy
  // system.
  bool idle = false;
  absl::Duration silence = absl::Seconds(2);

  BenchOptions();  // temperature 0: both requests of a pair give the same text
  void AddTo(flags::FlagSet& flags);
  // INVALID_ARGUMENT names the flag and the values that it may have.
  absl::Status Validate() const;
  std::vector<BenchMode> Modes() const;  // never empty
  BenchMode Against() const { return against.value_or(BenchMode{0}); }
};

// Parses "1,8,64": whole numbers from 1 to kMaxConcurrency, rising. INVALID_ARGUMENT names the
// flag.
inline constexpr uint32_t kMaxConcurrency = 4096;
absl::StatusOr<std::vector<uint32_t>> ParseConcurrency(absl::string_view text);

// Parses "off", "auto" or "1" to "16". INVALID_ARGUMENT names the flag `against`.
absl::StatusOr<BenchMode> ParseAgainst(absl::string_view text);

// Parses "off,2,auto": distinct modes, each off, auto or 1 to 16. INVALID_ARGUMENT names the flag.
absl::StatusOr<std::vector<BenchMode>> ParseModes(absl::string_view text);

// A few beginnings of stories and of technical prose.
std::vector<std::string> BuiltInPrompts();

// Parses a file with one prompt on each line. A line that begins with { is a JSON object with the
// field "prompt". Empty lines are skipped. INVALID_ARGUMENT names file and line.
absl::StatusOr<std::vector<std::string>> ParsePrompts(absl::string_view text,
                                                      absl::string_view file);

}  // namespace tandem::client
