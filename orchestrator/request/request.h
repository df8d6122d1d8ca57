// The values that the parts of a request's path exchange. They are plain values without wire types.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/acceptance/rule.h"
#include "common/base/ids.h"
#include "common/concurrency/instant.h"
#include "common/sampling/logprobs.h"
#include "common/sampling/parameters.h"
#include "common/speculation/candidate_tree.h"
#include "common/speculation/proposal.h"
#include "orchestrator/request/committed_tokens.h"
#include "orchestrator/request/drafter_choice.h"
#include "orchestrator/request/length_choice.h"

namespace tandem::orchestrator {

using speculation::CandidateTree;
using speculation::Proposal;

// Texts of one request.
inline constexpr uint32_t kMaxSamples = 16;

// A validated request (request_validation.h), with every default filled in.
struct GenerationRequest {
  std::string id;                       // the client's own, or a unique one
  std::string user;                     // on whose behalf the client asks; may be empty
  bool is_chat = false;                 // its prompt was a conversation
  std::vector<uint32_t> prompt;         // at least one token
  std::vector<uint32_t> output_prefix;  // output that the client has already
  // Its stop_token_ids are all ids that end the text: the model's (unless ignored) and the
  // request's.
  sampling::SamplingParameters sampling;
  acceptance::Rule rule = acceptance::Rule::kGreedy;  // the rule in force
  std::optional<double> leniency;  // set exactly with rule lenient; above 0, to 1
  uint64_t seed = 0;
  uint64_t retry_seed = 0;    // of the jitter of its retries; unlike any other request's
  uint32_t samples = 1;       // texts, 1 to kMaxSamples
  uint32_t sample_index = 0;  // of the first sample; the others follow
  // Output tokens at most, output_prefix included. It is larger than output_prefix, and fits the
  // context together with the prompt.
  uint32_t max_tokens = 0;
  std::vector<std::string> stop_strings;             // no match within the first min_tokens
  std::optional<sampling::LogprobOptions> logprobs;  // absent: no log probabilities
  bool prompt_logprobs = false;                      // of the prompt's tokens, too
  bool round_records = false;                        // the client gets its round records
  bool token_bytes = false;                          // its ids come with their bytes
  bool text_runs = false;                            // deltas tell which of their text was drafted
  uint32_t priority = 0;                 // 0 to 10; higher ones are admitted and served first
  std::optional<uint32_t> draft_tokens;  // absent: the length policy decides; 0: no draft
  LengthMode length_mode = LengthMode::kHeuristic;  // where draft_tokens is absent
  uint32_t draft_nodes = 0;  // draft tokens of a tree at most, to kMaxTreeNodes; 0: chains
  // The length policy decides for each round whether it has a tree, where target and draft serve
  // trees.
  bool auto_nodes = false;  // only with `auto`, and draft_nodes above 0
  // Ends chains (generation.proto, SpeculationOptions); absent: the length policy's.
  std::optional<double> draft_min_confidence;
  // Outcomes of a block for which the draft prepares the next one: 0 to kMaxOutcomes. Chains alone,
  // under rules greedy and coupled alone.
  uint32_t prepare = 0;
  std::string cache_scope;           // prefixes are shared within it; empty: with nobody
  std::vector<std::string> ignored;  // unknown fields that the client set
  std::string drafter;               // empty: the draft service's default, or `drafters`
  // Those among which a chooser chooses (draft/choice): none, or 2 to kMaxDrafters. Then `drafter`
  // is empty.
  std::vector<std::string> drafters;
  Proposal proposal = Proposal::kDefault;
  std::optional<double> draft_temperature;  // of the draft's q; absent: the request's
  concurrency::Instant deadline = concurrency::Instant::InfiniteFuture();  // on the loop's clock
  std::string client;  // the connection that it came over; clients have turns

  uint32_t prompt_tokens() const { return static_cast<uint32_t>(prompt.size()); }
  uint32_t max_length() const { return prompt_tokens() + max_tokens; }

  // The rule that the draft is told.
  acceptance::Rule draft_rule() const;
  // Whether the draft may shape its blocks by what it computed: trees, and chains that end by
  // confidence. The draft refuses both under a rule whose draft tokens are drawn from a q.
  bool shapes_blocks() const;
};

// One sample of a request: the request, which all its samples share, and the sample's index. Each
// sample draws with noise of its own, because its index is in every key. The prompt and its log
// probabilities are the same for all, so only the first sample asks for them. A copy copies no
// token.
class SampleRequest {
 public:
  // The first sample. `request` is not null.
  explicit SampleRequest(std::shared_ptr<const GenerationRequest> request)
      : request_(std::move(request)),
        prompt_(speculation::TokenSlice::Text(request_, &request_->prompt)),
        sample_index_(request_->sample_index),
        prompt_logprobs_(request_->prompt_logprobs) {}
  // The first sample of a request that nobody else holds.
  SampleRequest(GenerationRequest request)  // NOLINT(google-explicit-constructor)
      : SampleRequest(std::make_shared<const GenerationRequest>(std::move(request))) {}
  // Called on the first sample. Returns sample `index` of the request, 0 to request->samples - 1.
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

// The log probabilities of one token of the text.
struct TokenLogprobs {
  float logprob = 0;
  std::vector<sampling::TokenLogprob> top;
};

// The log probabilities of consecutive prompt tokens.
struct PromptLogprobs {
  uint32_t first_position = 0;  // at least 1
  std::vector<uint32_t> ids;
  std::vector<TokenLogprobs> logprobs;  // one for each id
};

// Why a round ran without a draft. The names are part of the interface (generation.proto,
// CausedRounds).
enum class PlainCause : uint8_t {
  kFirstRound,    // target and draft read the prompt at the same time
  kOff,           // the request wants none, or no draft is configured
  kPolicyZero,    // the length policy says 0, or the text has room for no draft token
  kDraftLate,     // no block within its time
  kDraftLost,     // the draft's stream broke or cannot be opened
  kDraftRefused,  // the draft does not fit (tokenizer, options, drafter)
  kDraftInvalid,  // its block broke the rules
  kDraftStale,    // it did not hold the prefix of the block
  kDraftEmpty,    // it had nothing to propose
};
inline constexpr int kPlainCauses = 9;

const char* Name(PlainCause cause);

// What blocks that the draft prepared in advance were to a round (draft/prepared_blocks.h). The
// names are part of the interface (generation.proto, RoundRecord).
enum class PreparedUse : uint8_t {
  kNone,  // the draft was not to prepare any for it
  kHit,   // the round has one
  // Likewise, and the target went on with it before the verdict was read (target.proto,
  // Step.after).
  kChained,
  kMiss,  // none was for the verdict
  kLate,  // none had come
};
inline constexpr int kPreparedUses = 5;

inline bool WasPrepared(PreparedUse use) {
  return use == PreparedUse::kHit || use == PreparedUse::kChained;
}
const char* Name(PreparedUse use);  // empty: kNone

// How the text ended.
enum class Finish : uint8_t { kStop, kLength };

// The acceptance record, with the fields of generation.proto's AcceptanceRecord.
struct AcceptanceCounts {
  uint32_t rounds = 0;
  uint32_t draft_tokens = 0;
  uint32_t accepted_tokens = 0;
  std::vector<uint32_t> accepted_histogram;
  uint32_t rejected_rounds = 0;
  uint32_t plain_rounds[kPlainCauses] = {};
  uint32_t prepared_rounds[kPreparedUses] = {};
  uint32_t draft_reconnections = 0;
  uint32_t target_replays = 0;
  uint32_t one_hot_blocks = 0;
  uint64_t batch_rows = 0;       // rows of the passes that decided rounds, summed over rounds
  uint64_t batch_sequences = 0;  // sequences of these passes, summed over rounds
  uint64_t cached_tokens = 0;    // of what was sent: not computed, taken from other texts
  uint32_t tree_rounds = 0;      // whose draft tokens were a tree
  // Of the rounds that the length policy was asked in (generation.proto, LengthRecord).
  std::vector<uint32_t> chosen_histogram;
  uint32_t zero_rounds[kZeroCauses] = {};
  LengthEstimates estimates;  // the last ones
  // [i]: of GenerationRequest::drafters[i], in the rounds that a chooser was asked in; else empty.
  std::vector<DrafterCounts> drafters;
};

// The disjoint parts of a time (generation.proto, Stages).
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
  absl::Duration draft;      // wait for blocks
  absl::Duration verify;     // wait for verdicts
  absl::Duration target;     // part of `verify`: computing in the target
  absl::Duration queue;      // part of `verify`: wait for the target's device
  absl::Duration slot;       // part of `verify`: wait for a free slot at a target
  absl::Duration admission;  // wait for admission; part of `total` and `first_token`
  // The processor time of the loop's handlers, on ThreadCpuClock: it counts work, and no wait for a
  // core. It includes all that the handlers do, except the handler that ends the request. Most of
  // it is handing messages to the transport, because a gRPC write runs inside the call that starts
  // it.
  absl::Duration cpu;
  RoundStages stages;  // sums over all decided rounds
};

}  // namespace tandem::orchestrator
