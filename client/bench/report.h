// What speculation won: measured, and predicted from the time that each step took.
//
// Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "client/common/outcome.h"
#include "client/common/stats.h"

namespace tandem::client {

// The same prompt without a draft (a) and with one (b), one after the other.
struct BenchPair {
  v1::Last plain;
  v1::Last drafted;
};

// All times in milliseconds.
struct BenchReport {
  int pairs = 0;
  Spread plain_per_token;
  Spread drafted_per_token;
  Spread ratio;                // plain / drafted, pair by pair: above 1 the draft pays
  double tokens_per_pass = 0;  // with the draft
  double alpha_hat = 0;
  double candidates = 0;       // K: candidates a round that had a draft
  double draft_step = 0;       // t_draft: waiting for a block, a round that had a draft
  double verify_step = 0;      // t_verify: waiting for a verdict, with the draft
  double plain_step = 0;       // t: waiting for a verdict, without
  double expected_tokens = 0;  // E = (1 - a^(K+1)) / (1 - a), Leviathan et al. 2023, equation 1
  double predicted_ratio = 0;  // E t / (t_draft + t_verify)
};

BenchReport MakeReport(const std::vector<BenchPair>& pairs);

std::string ReportTable(const BenchReport& report);
std::string ReportJson(const BenchReport& report);  // one line

}  // namespace tandem::client
