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
#include "client/flags.h"
#include "client/generate_options.h"

namespace tandem::client {

struct BenchOptions {
  std::string orchestrator = kDefaultOrchestrator;
  std::string prompts_file;  // empty: built-in prompts
  uint64_t prompts = 0;      // only the first so many; 0 = all
  uint64_t max_tokens = 64;
  uint64_t repeats = 3;  // pairs of requests a prompt
  SamplingFlags sampling;
  bool json = false;

  BenchOptions();  // temperature 0, so that both of a pair write the same text
  void AddTo(FlagSet& flags);
  absl::Status Validate() const;
};

// Some beginnings of stories and of technical prose.
std::vector<std::string> BuiltInPrompts();

// One prompt a line; a line that begins with { is a JSON object with "prompt". Empty lines do not
// count. INVALID_ARGUMENT names file and line.
absl::StatusOr<std::vector<std::string>> ParsePrompts(absl::string_view text,
                                                      absl::string_view file);

}  // namespace tandem::client
