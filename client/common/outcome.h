// A request as the client saw it, and the rates that follow from its last message.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::client {

// What came of one text.
struct SampleOutput {
  std::string text;
  std::vector<uint32_t> token_ids;
  std::vector<float> logprobs;                // one a token, or none
  std::vector<v1::TopLogprobs> top_logprobs;  // one a token, or none
};

struct Outcome {
  v1::Started started;
  v1::PromptLogprobs prompt;                 // all of them as one; empty when not asked for
  std::vector<SampleOutput> samples = {{}};  // at least one
  v1::Last last;
  std::vector<v1::RoundRecord> rounds;  // when they were asked for

  bool has_started() const { return started.rule() != v1::RULE_UNSPECIFIED; }
  // How sample `index` ended. Of sample 0 also where the reply names no samples.
  v1::SampleEnd End(size_t index) const;
};

// Adds a reply to `outcome`. INTERNAL when it makes no sense: a sample that nobody asked for, or
// more or fewer log probabilities than tokens. `samples`: how many were asked for, at least 1.
absl::Status Collect(const v1::GenerateReply& reply, uint32_t samples, Outcome& outcome);

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

}  // namespace tandem::client
