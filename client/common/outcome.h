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

// The output of one sample.
struct SampleOutput {
  std::string text;
  std::vector<uint32_t> token_ids;
  std::vector<float> logprobs;                // one per token, or none
  std::vector<v1::TopLogprobs> top_logprobs;  // one per token, or none
  std::vector<std::string> token_bytes;       // of each token, or none
};

struct Outcome {
  v1::Started started;
  v1::PromptLogprobs prompt;                 // all messages joined; empty when not asked for
  std::vector<SampleOutput> samples = {{}};  // at least one
  v1::Last last;
  std::vector<v1::RoundRecord> rounds;  // empty when not asked for

  bool has_started() const { return started.rule() != v1::RULE_UNSPECIFIED; }
  // How sample `index` ended. Sample 0 has an end even if the reply names no samples.
  v1::SampleEnd End(size_t index) const;
};

// Adds a reply to `outcome`. `samples` is the number of samples that were asked for, at least 1.
// INTERNAL means that the reply makes no sense: it names a sample that was not asked for, or has
// more or fewer log probabilities or bytes than tokens, or runs of another length than the text.
absl::Status Collect(const v1::GenerateReply& reply, uint32_t samples, Outcome& outcome);

// accepted / (accepted + rounds that ended by a rejection): the chance that a draft token is
// accepted. accepted / drafted is something else, because it counts draft tokens that were never
// tested. Returns 0 when nothing was drafted.
double AlphaHat(const v1::AcceptanceRecord& record);

// Output tokens for each verdict; 0 when there was no verdict.
double TokensPerPass(const v1::Last& last);

// The mean number of sequences in the passes that decided its rounds, its own included; 0 when
// there was no pass.
double MeanBatch(const v1::AcceptanceRecord& record);

// The mean time of a token after the first one, in milliseconds; 0 for fewer than two tokens.
double MillisecondsPerToken(const v1::Last& last);

// "greedy", "speculative", "stop", "length" …
std::string RuleName(v1::Rule rule);
std::string FinishReasonName(v1::FinishReason reason);

}  // namespace tandem::client
