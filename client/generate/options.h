// The options of `tandem generate`, and the request that they make.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/common/orchestrator_flags.h"
#include "client/common/request_flags.h"
#include "client/common/text_source.h"
#include "common/flags/flag_set.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::client {

inline constexpr uint64_t kDefaultMaxTokens = 128;

struct GenerateOptions {
  OrchestratorFlags orchestrator;
  TextSource prompt;
  bool chat = false;   // the prompt is a user's message, for the model's chat template
  std::string system;  // with `chat`: the system's message; empty: none
  std::optional<uint64_t>
      max_tokens;  // absent: kDefaultMaxTokens, or what there is room for; 0 = the
                   // orchestrator's default
  RequestFlags request;
  std::vector<std::string> stop;
  uint64_t samples = 1;  // 1 to messages::kMaxRequestSamples

  std::optional<uint64_t> logprobs;  // alternatives per token, 0 to 20; absent: no log
                                     // probabilities
  bool processed_logprobs = false;   // needs logprobs, as the next field
  bool prompt_logprobs = false;
  absl::Duration timeout = absl::ZeroDuration();  // 0 = unlimited
  std::string format = "text";                    // text, json
  std::string record;                             // a file for the final JSON object; empty: none
  bool force = false;                             // `record` replaces an existing file
  bool quiet = false;                             // the text alone

  std::string timeline;        // short, all; empty: none
  std::string color = "auto";  // auto, always, never
  bool trace = false;          // asks for a trace, whatever the services sample
  std::string traceparent;     // W3C Trace Context: the parent span; empty: none

  void AddTo(flags::FlagSet& flags);
  absl::Status Validate() const;  // INVALID_ARGUMENT names the flag and its range
};

// `prompt` is the text: UTF-8 and not empty.
v1::GenerateRequest MakeRequest(const GenerateOptions& options, absl::string_view prompt);

// The value of the metadata `traceparent`: the given one, or with --trace a new one with random ids
// that asks for sampling; else empty. `random` returns 64 random bits.
std::string MakeTraceparent(const GenerateOptions& options,
                            const std::function<uint64_t()>& random);

}  // namespace tandem::client
