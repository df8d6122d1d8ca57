// The gain of speculation: as measured, and as predicted from the measured times of a round's
// parts.
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/bench/records.h"
#include "client/common/outcome.h"
#include "client/common/stats.h"

namespace tandem::client {

// Two requests with the same prompt, one after the other: the one to compare with, and the one that
// is compared. Each is the first one in half of the pairs.
struct BenchPair {
  v1::Last reference;
  v1::Last request;
};

// All times in milliseconds.
struct BenchReport {
  int pairs = 0;
  BenchMode against;  // of the reference
  Spread reference_per_token;
  Spread request_per_token;
  Spread ratio;  // reference / request, one value a pair; above 1 the request is faster
  std::optional<MeanFactor> mean_ratio;
  double tokens_per_pass = 0;  // of the request, as all that follow
  double alpha_hat = 0;
  double candidates = 0;  // K: draft tokens in a round that had a draft
  // Medians over the requests, of their rounds but the first:
  double draft_step = 0;   // t_draft: wait for the block, in a round that had a draft
  double verify_step = 0;  // t_verify: the rest of a round
  double plain_step = 0;   // t: a round of the reference, without waiting for drafts
  // E = (1 - a^(K+1)) / (1 - a), Leviathan et al. 2023, equation 1, and E t / (t_draft + t_verify).
  // The equation is one of chains. Absent where some block was a tree, and where the reference had
  // drafts.
  std::optional<double> expected_tokens;
  std::optional<double> predicted_ratio;
};

BenchReport MakeReport(const std::vector<BenchPair>& pairs, const BenchMode& against = {0});

std::string ReportTable(const BenchReport& report);
std::string ReportJson(const BenchReport& report);  // one line

}  // namespace tandem::client
