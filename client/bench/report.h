// The gain of speculation: as measured, and as predicted from the measured times of a round's
// parts.
//
// Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/common/outcome.h"
#include "client/common/stats.h"

namespace tandem::client {

// Two requests with the same prompt, one after the other: without a draft (a) and with one (b).
struct BenchPair {
  v1::Last plain;
  v1::Last drafted;
};

// All times in milliseconds.
struct BenchReport {
  int pairs = 0;
  Spread plain_per_token;
  Spread drafted_per_token;
  Spread ratio;                // plain / drafted, one value a pair; above 1 the draft pays
  double tokens_per_pass = 0;  // with the draft
  double alpha_hat = 0;
  double candidates = 0;   // K: draft tokens in a round that had a draft
  double draft_step = 0;   // t_draft: wait for the block, in a round that had a draft
  double verify_step = 0;  // t_verify: wait for the verdict, with the draft
  double plain_step = 0;   // t: wait for the verdict, without a draft
  // E = (1 - a^(K+1)) / (1 - a), Leviathan et al. 2023, equation 1, and E t / (t_draft + t_verify). The
  // equation is one of chains. Absent where some block was a tree.
  std::optional<double> expected_tokens;
  std::optional<double> predicted_ratio;
};

BenchReport MakeReport(const std::vector<BenchPair>& pairs);

std::string ReportTable(const BenchReport& report);
std::string ReportJson(const BenchReport& report);  // one line

}  // namespace tandem::client
