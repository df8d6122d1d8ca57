// What `tandem generate` is told, and the request that follows from it.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/flags.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::client {

inline constexpr char kDefaultOrchestrator[] = "127.0.0.1:50050";
inline constexpr uint32_t kMostDraftTokens = 16;
inline constexpr uint32_t kMostPriority = 10;

// How text is continued: shared by `generate` and `bench`.
struct SamplingFlags {
  std::optional<double> temperature;
  std::optional<uint64_t> top_k;
  std::optional<double> top_p;
  std::optional<uint64_t> seed;
  std::string rule;                      // greedy, speculative; empty: the service chooses
  std::string drafter;                   // empty: the draft service's default
  std::optional<uint32_t> draft_tokens;  // absent: auto

  void AddTo(FlagSet& flags);
  absl::Status Validate() const;  // what no flag alone can tell
  // Fills sampling, seed and speculation.
  void Apply(v1::GenerateRequest& request) const;
};

struct GenerateOptions {
  std::string orchestrator = kDefaultOrchestrator;
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_file;  // "-": standard input
  uint64_t max_tokens = 128;               // 0 = all that the context has room for
  SamplingFlags sampling;
  std::vector<std::string> stop;
  uint64_t priority = 0;                          // 0 to kMostPriority
  absl::Duration timeout = absl::ZeroDuration();  // 0 = unlimited
  std::string format = "text";                    // text, json
  std::string record;                             // a file for the final JSON object; empty: none

  void AddTo(FlagSet& flags);
  absl::Status Validate() const;  // INVALID_ARGUMENT naming the flag and what would be right
};

// `prompt`: the text itself, UTF-8, not empty.
v1::GenerateRequest MakeRequest(const GenerateOptions& options, absl::string_view prompt);

// INVALID_ARGUMENT when it is empty or not UTF-8. `source` names it: "--prompt", a file's name.
absl::Status CheckPrompt(absl::string_view prompt, absl::string_view source);

}  // namespace tandem::client
