// What the judge's kernels read and write. The host lays it out (judge_tables.h), and it is copied
// to a card as it is.
//
// Thread safety: plain values.
#pragma once

#include "common/base/host_device.h"

namespace tandem::kernels {

// Elements first to first + count - 1 of one of the lists of JudgeArguments.
struct Slice {
  uint32_t first = 0;
  uint32_t count = 0;
};

inline constexpr uint32_t kNoToken = 0xffff'ffff;
inline constexpr uint32_t kMaxLowered = 64;  // tokens of one q

enum class RowRule : uint32_t {
  kNone,        // a prompt's row: log probabilities alone
  kNoneOneHot,  // the same at temperature 0
  kOneHot,      // greedy, and plain decoding at temperature 0
  kRace,        // coupled, and plain decoding
  kRatio,       // speculative and lenient
  kBlock,
  kLenientGreedy,  // lenient at temperature 0; p is what it is at temperature 1
};

enum class RowLogprobs : uint32_t { kNone, kOfModel, kOfP };

// Whether a row has a draft token, and what for. kTold: its log probability alone; the row has a
// token of its own whatever it is, as the last one of a block.
enum class RowCandidate : uint32_t { kNone, kJudged, kTold };

// What the rows of one part have in common: sampling::SamplingParameters, and more.
struct JudgeSequence {
  double scale = 1;  // of logits: 1 / temperature, at most 1e300
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  double presence_penalty = 0;
  double frequency_penalty = 0;
  double leniency = 1;
  uint64_t seed = 0;
  uint32_t sample_index = 0;
  uint32_t top_k = 0;
  uint32_t min_tokens = 0;
  uint32_t prompt_tokens = 0;
  uint32_t tokens_before = 0;  // the first row: prompt and output
  uint32_t first_row = 0;
  uint32_t rows = 0;
  RowRule rule = RowRule::kNone;
  RowLogprobs logprobs = RowLogprobs::kNone;
  uint32_t top_logprobs = 0;
  uint32_t penalises = 0;
  Slice bias;  // of `ids`, and as many of `numbers` from bias_numbers on
  uint32_t bias_numbers = 0;
  Slice banned, allowed, stop;  // of `ids`
  // Distinct tokens before the first row, ascending, and as many counts of them in the output, both
  // in `ids`.
  Slice seen;
  uint32_t seen_counts = 0;
  // The tokens that follow, in `ids`: a row comes after the first `index` of them. Of a tree each
  // node is a sequence of one row, and these are its path.
  Slice following;
};

struct JudgeRow {
  double uniform = 0;      // draws what follows: recovered; of the last row of a block: bonus
  double q_candidate = 1;  // q(draft token)
  uint32_t sequence = 0;
  uint32_t logits_row = 0;
  uint32_t index = 0;  // of the tokens that follow, those before the row
  RowCandidate candidate_is = RowCandidate::kNone;
  uint32_t candidate = 0;  // that follows the row, any id; the prompt's token
  Slice q;                 // of `ids`, and as many of `numbers` from q_numbers on
  uint32_t q_numbers = 0;
};

inline constexpr uint32_t kSumWays = 8;

// Of one row, from kernel to kernel.
struct RowState {
  double log_sum = 0;      // of exp(logit - model_largest), all logits
  double p_candidate = 0;  // p(draft token)
  float largest = 0;       // of the processed logits
  float model_largest = 0;
  uint32_t argmax = 0;  // of the processed logits
  uint32_t broken = 0;  // bit 0: no p can be made of the row; bit 1: nor its log probabilities
  uint32_t tokens = 0;  // of p: as many entries
  uint32_t listed = 0;  // 0: entry i is token i; else `ids` of the workspace has its token
  // Rule block: something is left of p once q has had its share. Of the root's share, all of p.
  uint32_t left_over = 0;
  uint32_t padding = 0;
  double factor = 1;  // of the weights, that makes them p
  // Every eighth of the weights from the first, the second, … on, where no top_k has left some out;
  // and what log_sum is the sum of.
  double sums[kSumWays] = {};
  double model_sums[kSumWays] = {};
};
inline constexpr uint32_t kBrokenP = 1, kBrokenModel = 2;

// What a block finds in its columns of a row. Others put the parts of a row together.
struct RowPart {
  // Until there are weights: RankKey of the largest, of the processed logits and of the model's.
  // All bits: every logit is a NaN.
  uint64_t largest = 0;
  uint64_t model_largest = 0;
  uint32_t broken = 0;  // as in RowState: there is a NaN among these
  // After that: who wins the race of these columns, and how many have next to its time.
  uint32_t near = 0;
  double time = 0;
  uint32_t place = 0;
  uint32_t padding = 0;
};

struct TopLogprob {
  uint32_t token;
  float logprob;
};

// What comes back of a row, and top_logprobs TopLogprobs.
struct RowVerdict {
  double accept_probability = 1;
  uint32_t next_token = kNoToken;
  uint32_t broken = 0;  // as in RowState
  float candidate_logprob = 0;
  float next_logprob = 0;
  uint32_t top = 0;  // as many TopLogprobs count
  uint32_t padding = 0;
};

// A block has at least so many columns of a row, so a row at most so many parts.
inline constexpr uint32_t kMinColumn = 64;

// Arguments of all kernels of the judge.
struct JudgeArguments {
  const JudgeSequence* sequences = nullptr;
  const JudgeRow* rows = nullptr;
  const uint32_t* ids = nullptr;
  const double* numbers = nullptr;

  const float* logits = nullptr;  // rows of logits_stride
  uint64_t logits_stride = 0;
  uint32_t vocabulary_size = 0;  // logits that count; at most logits_stride

  // The rows of this launch, and room for each: workspace_stride of each kind, even, and at least
  // vocabulary_size, rounded up to kMinColumn. A card needs `weights` aligned to 16 bytes.
  uint32_t first_row = 0;
  uint32_t workspace_stride = 0;
  float* processed = nullptr;
  double* weights = nullptr;
  uint32_t* workspace_ids = nullptr;
  RowPart* parts = nullptr;  // of each row workspace_stride / kMinColumn

  // Of all rows.
  RowState* states = nullptr;
  RowVerdict* verdicts = nullptr;
  TopLogprob* top = nullptr;  // rows of top_stride
  uint32_t top_stride = 0;
  uint32_t padding = 0;
};

// The host's compiler and NVRTC lay them out alike.
static_assert(sizeof(JudgeSequence) == 168 && sizeof(JudgeRow) == 48 && sizeof(RowState) == 184);
static_assert(sizeof(RowVerdict) == 32 && sizeof(JudgeArguments) == 128 && sizeof(RowPart) == 40);

}  // namespace tandem::kernels
