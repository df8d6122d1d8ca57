// Whether requests through the three services follow the target's distribution exactly: the texts of
// many requests against what the model says.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/sampling/distribution.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"
#include "tests/support/chi_square.h"

namespace tandem::testing {

inline constexpr uint32_t kTextTokens = 12;  // of a request
inline constexpr uint32_t kJointTokens = 4;  // of them are judged jointly

// The target's p after a context, with all sampling parameters applied.
using TargetDistribution = std::function<sampling::Distribution(absl::Span<const uint32_t>)>;

struct TextsOptions {
  std::vector<uint32_t> prompt = {0, 1};
  sampling::SamplingParameters sampling;
  uint32_t draft_tokens = 3;
  std::string drafter = "model";
  int requests = 3000;
  uint64_t first_seed = 1;  // one more for each request
};

// Sends all requests, many at once. CHECKs that each succeeds with kTextTokens ids.
std::vector<Reply> SampleTexts(InProcessCluster& cluster, const TextsOptions& options);

struct Judgement {
  // Of the first kJointTokens tokens, against exact enumeration.
  ChiSquare joint;
  // Of each later token, gathered by the two tokens before it: counts against the sum of p over the
  // texts that were seen. Exact where p depends on two tokens only; where it depends on more, the
  // counts vary less than chi-square assumes, so that a pass is still owed and a failure still real.
  ChiSquare transitions;
  int64_t accepted = 0, rejected_rounds = 0, plain_rounds = 0, whole_blocks = 0;

  std::string ToString() const;
};

Judgement Judge(const std::vector<Reply>& replies, const TextsOptions& options,
                uint32_t vocabulary_size, const TargetDistribution& p);

}  // namespace tandem::testing
