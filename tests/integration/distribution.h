// Whether requests through the three services follow the target's distribution exactly: the texts
// of many requests against what the model says.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/sampling/distribution.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"
#include "tests/support/chi_square.h"

namespace tandem::testing {

// The target's p after a context (prompt and output), with all sampling parameters applied.
using TargetDistribution = std::function<sampling::Distribution(absl::Span<const uint32_t>)>;

struct TextsOptions {
  std::vector<uint32_t> prompt = {0, 1};
  sampling::SamplingParameters sampling;  // stop_token_ids travel as stop tokens
  // What the requests say instead, where a planted judge does the rest.
  std::optional<sampling::SamplingParameters> asked;
  v1::Rule rule = v1::RULE_SPECULATIVE;
  std::optional<uint32_t> draft_tokens = 3;  // absent: the length policy decides
  v1::LengthPolicy length_policy = v1::LENGTH_POLICY_UNSPECIFIED;
  std::string drafter = "model";
  v1::Proposal proposal = v1::PROPOSAL_UNSPECIFIED;
  std::optional<double> draft_temperature;
  std::optional<double> leniency;
  uint32_t text_tokens = 12;
  uint32_t joint_tokens = 4;  // at most text_tokens
  int requests = 3000;
  uint32_t samples = 1;     // texts per request
  uint64_t first_seed = 1;  // one more for each request
};

// How many texts a cell of the large tests has: the environment's TANDEM_DISTRIBUTION_TEXTS, else
// `usual`.
int TextsOfACell(int usual);

// One request as `options` say, with this seed.
v1::GenerateRequest TextRequest(const TextsOptions& options, uint64_t seed);

struct Judgement {
  // Of the first joint_tokens tokens, against exact enumeration.
  ChiSquare joint;
  // Of what follows them. Where p depends on the context's tokens alone: each later token, gathered
  // by the two tokens before it, counts against the sum of p over the texts that were seen. Exact
  // where p depends on two tokens only; where it depends on more, the counts vary less than
  // chi-square assumes, so that a pass is still owed and a failure still real. Where p looks back
  // (penalties, minimum tokens): of the last joint_tokens tokens, against the enumeration of all
  // texts.
  ChiSquare rest;
  int64_t texts = 0;
  int64_t accepted = 0, rejected_rounds = 0, plain_rounds = 0, whole_blocks = 0;
  int64_t ended = 0;  // texts with an end token

  std::string ToString() const;
};

// Gathers texts, and judges them at last.
class TextJudge {
 public:
  TextJudge(const TextsOptions& options, uint32_t vocabulary_size, TargetDistribution p);

  // All samples of a request. CHECKs that it succeeded, each with as many ids as it was asked for
  // or an end token.
  void Add(const Reply& reply);
  Judgement Finish() const;

 private:
  // Counts of what followed one context, and how often p expected it.
  struct Followers {
    std::vector<int64_t> counts;
    std::vector<double> expected;
    int64_t seen = 0;
  };

  void AddText(absl::Span<const uint32_t> output);
  bool IsEnd(uint32_t token) const;
  void Enumerate(std::vector<uint32_t>& tokens, double probability);
  // Of `count` symbols from `first` on; a text that ended goes on with a symbol of its own.
  size_t CellOf(absl::Span<const uint32_t> output, uint32_t first, uint32_t count) const;

  const TextsOptions options_;
  const uint32_t vocabulary_size_;
  const TargetDistribution p_;
  std::vector<double> exact_joint_, exact_last_;
  std::vector<int64_t> joint_, last_;
  std::map<std::pair<uint32_t, uint32_t>, Followers> transitions_;
  Judgement judgement_;
};

// Sends all requests, many at once, and judges their texts.
Judgement MeasureTexts(InProcessCluster& cluster, const TextsOptions& options,
                       uint32_t vocabulary_size, TargetDistribution p);

}  // namespace tandem::testing
