// How replies look: JSON lines for programs, a summary for people.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::client {

// A whole request as the client saw it.
struct Outcome {
  v1::Started started;
  std::string text;
  std::vector<uint32_t> token_ids;
  v1::Last last;
};

// accepted / (accepted + rounds that ended by a rejection): the chance that a candidate stands. Not
// accepted / drafted, which counts candidates that nobody looked at. 0 when there were none.
double AlphaHat(const v1::AcceptanceRecord& record);

// Output tokens a verdict; 0 when there was none.
double TokensPerPass(const v1::Last& last);

// Sequences in the passes that decided its rounds, on average, its own counted; 0 when there was none.
double MeanBatch(const v1::AcceptanceRecord& record);

// After the first token, in milliseconds; 0 for fewer than two tokens.
double MillisecondsPerToken(const v1::Last& last);

// "greedy", "speculative", "stop", "length" …
std::string RuleName(v1::Rule rule);
std::string FinishReasonName(v1::FinishReason reason);

// One line each, without the line break:
//   {"delta": …, "token_ids": […]}
//   {"final": true, "text", "token_ids", "finish_reason", "usage": {…}, "speculation": {…},
//   "timing_ms": {…}}
std::string JsonDelta(const v1::Delta& delta);
std::string JsonFinal(const Outcome& outcome);

// The acceptance record in a few lines, with a bar for each number of accepted candidates. Waiting and
// the mean batch are named when they are more than kTrivialWait, and more than one sequence.
inline constexpr absl::Duration kTrivialWait = absl::Milliseconds(1);
std::string Summary(const Outcome& outcome);

}  // namespace tandem::client
