// What the parts of a request's path say to each other: plain values, no wire types.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/acceptance/rule.h"
#include "common/sampling/logprobs.h"
#include "common/sampling/parameters.h"
#include "common/sampling/sparse.h"
#include "orchestrator/request/committed_tokens.h"

namespace tandem::orchestrator {

// How a drafter that could sample proposes.
enum class Proposal : uint8_t {
  kDefault,  // as the draft service was told at its start
  kSampled,  // draws from its q
  kGreedy,   // its most likely token
};

// A request that was found good (request_validation.h), with every default filled in.
struct GenerationRequest {
  std::string id;
  std::vector<uint32_t> prompt;         // at least one token
  std::vector<uint32_t> output_prefix;  // output that the client already has
  // Its stop_token_ids are the ids that end the text: the model's (unless ignored), and the request's.
  sampling::SamplingParameters sampling;
  acceptance::Rule rule = acceptance::Rule::kGreedy;  // in force
  std::optional<double> leniency;  // with rule lenient, and only then; above 0, to 1
  uint64_t seed = 0;
  uint32_t samples = 1;       // texts, 1 to 16
  uint32_t sample_index = 0;  // of the first of them; the others follow
  // Output, output_prefix included; more than its size; prompt and this fit the context.
  uint32_t max_tokens = 0;
  std::vector<std::string> stop_strings;             // not looked for in the first min_tokens
  std::optional<sampling::LogprobOptions> logprobs;  // absent: none are wanted
  bool prompt_logprobs = false;                      // of the prompt's tokens, too
  bool round_records = false;                        // the client wants to see its rounds
  uint32_t priority = 0;                 // 0 to 10: admitted and served before lower ones
  std::optional<uint32_t> draft_tokens;  // absent: the length policy decides; 0: the target alone
  std::string drafter;                   // empty: the draft service's default
  Proposal proposal = Proposal::kDefault;
  std::optional<double> draft_temperature;             // of the draft's q; absent: the request's
  absl::Duration deadline = absl::InfiniteDuration();  // on the loop's clock

  uint32_t prompt_tokens() const { return static_cast<uint32_t>(prompt.size()); }
  uint32_t max_length() const { return prompt_tokens() + max_tokens; }
};

// One of a request's texts: the request, which all of its samples share, and what is the sample's own. Each sample
// draws with noise of its own: its index is in every key. The prompt is the same for all, and so are its log
// probabilities: the first sample asks for them. A copy copies no token.
class SampleRequest {
 public:
  // The first sample. `request` is not null.
  explicit SampleRequest(std::shared_ptr<const GenerationRequest> request)
      : request_(std::move(request)),
        prompt_(speculation::TokenSlice::Text(request_, &request_->prompt)),
        sample_index_(request_->sample_index),
        prompt_logprobs_(request_->prompt_logprobs) {}
  // That of a request which nobody else holds.
  SampleRequest(GenerationRequest request)  // NOLINT(google-explicit-constructor)
      : SampleRequest(std::make_shared<const GenerationRequest>(std::move(request))) {}
  // Of this first sample, the `index`-th: 0 to request->samples - 1.
  SampleRequest Sibling(uint32_t index) const {
    SampleRequest sibling = *this;
    sibling.sample_index_ += index;
    sibling.prompt_logprobs_ = prompt_logprobs_ && index == 0;
    return sibling;
  }

  const GenerationRequest& operator*() const { return *request_; }
  const GenerationRequest* operator->() const { return request_.get(); }
  uint32_t sample_index() const { return sample_index_; }
  bool prompt_logprobs() const { return prompt_logprobs_; }  // of the prompt's tokens, too
  const SharedPrompt& prompt() const { return prompt_; }

 private:
  std::shared_ptr<const GenerationRequest> request_;
  SharedPrompt prompt_;  // request_->prompt
  uint32_t sample_index_;
  bool prompt_logprobs_;
};

// A chain of candidates, as it goes to verification. No tokens: the round is plain decoding.
struct CandidateBlock {
  uint64_t id = 0;  // 0 = none
  std::vector<uint32_t> tokens;
  std::vector<sampling::SparseDistribution> q;  // one a token, or empty: one-hot
};

// Of one token of the text.
struct TokenLogprobs {
  float logprob = 0;
  std::vector<sampling::TokenLogprob> top;
};

// Of prompt tokens in a row.
struct PromptLogprobs {
  uint32_t first_position = 0;  // at least 1
  std::vector<uint32_t> ids;
  std::vector<TokenLogprobs> logprobs;  // one an id
};

// Why a round ran without a draft. The names are part of the interface (generation.proto,
// CausedRounds).
enum class PlainCause : uint8_t {
  kFirstRound,    // target and draft read the prompt at the same time
  kOff,           // the request wants none, or no draft is configured
  kPolicyZero,    // the length policy says 0, or the text has room for no candidate
  kDraftLate,     // no block within its time
  kDraftLost,     // the draft's stream broke, or cannot be opened
  kDraftRefused,  // the draft does not fit (tokenizer, options, drafter)
  kDraftInvalid,  // its block broke the rules
  kDraftStale,    // it did not hold the prefix that the block was to build on
  kDraftEmpty,    // it had nothing to propose
};
inline constexpr int kPlainCauses = 9;

const char* Name(PlainCause cause);

// How the text ended.
enum class Finish : uint8_t { kStop, kLength };

// How speculation went. Field by field as generation.proto's AcceptanceRecord.
struct AcceptanceCounts {
  uint32_t rounds = 0;
  uint32_t drafted = 0;
  uint32_t accepted = 0;
  std::vector<uint32_t> accepted_histogram;
  uint32_t rejected_rounds = 0;
  uint32_t plain_rounds[kPlainCauses] = {};
  uint32_t draft_reconnections = 0;
  uint32_t target_replays = 0;
  uint32_t one_hot_blocks = 0;
  uint64_t batch_rows = 0;       // of the passes that decided the rounds, summed over rounds
  uint64_t batch_sequences = 0;  // of these passes, summed
};

// Disjoint parts of a time (generation.proto, Stages).
struct RoundStages {
  absl::Duration draft;
  absl::Duration network;
  absl::Duration slot;
  absl::Duration queue;
  absl::Duration device;
  absl::Duration own;

  absl::Duration total() const { return draft + network + slot + queue + device + own; }
  RoundStages& operator+=(const RoundStages& more);
};

struct StageTimes {
  absl::Duration total;
  absl::Duration first_token;
  absl::Duration draft;      // waiting for blocks
  absl::Duration verify;     // waiting for verdicts
  absl::Duration target;     // of that, computing in the target
  absl::Duration queue;      // of `verify`, waiting for the target's device
  absl::Duration slot;       // of `verify`, waiting for a free slot at a target
  absl::Duration admission;  // waiting to be admitted; part of `total` and of `first_token`
  // Of the loop's handlers, but for the one that ends the request: all that they do, handing messages to
  // the transport included (which is most of it: a gRPC write runs inside the call that starts it). On
  // ThreadCpuClock, so that it is work and not waiting for a core.
  absl::Duration own;
  RoundStages stages;  // of all decided rounds
};

}  // namespace tandem::orchestrator
