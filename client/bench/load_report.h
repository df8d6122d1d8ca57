// Summaries and tables of load runs, with the modes side by side.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/bench/records.h"
#include "client/common/stats.h"

namespace tandem::client {

struct ModeRuns {
  BenchMode mode;
  std::vector<LoadRun> runs;  // the r-th runs of all modes followed each other
};

struct LoadTable {
  uint32_t concurrency = 0;
  std::vector<ModeRuns> modes;
};

// The summary over all runs of one mode. An absent value was not reported by anybody.
struct LoadSummary {
  uint64_t requests = 0;        // that ended well; times and rounds are of these
  Spread tokens_per_second;     // one value a run
  std::optional<Spread> ratio;  // tokens_per_second over that of `off` in the same turn
  std::optional<MeanFactor> mean_ratio;
  Percentiles first_token_ms;
  Percentiles per_token_ms;  // one value a request: the mean time between its tokens

  // From the target's counters, over windows and tails.
  std::optional<double> pass_sequences;  // a pass, mean
  std::optional<double> pass_rows;
  std::optional<double> device_share;  // share of time that the device computes; 0 to 1
  // From the requests: size of the pass that decided a round, mean over rounds.
  std::optional<double> round_sequences;
  std::optional<double> round_rows;

  uint64_t rounds = 0;
  std::map<std::string, uint64_t> rounds_without_draft;  // by cause
  double undrafted_share = 0;  // share of rounds that should have had a draft and had none; 0 to 1
  double tokens_per_round = 0;
  double accepted_per_round = 0;
  // Mean times over rounds.
  double draft_ms = 0;      // wait for the block
  double verify_ms = 0;     // wait for the verdict, with these parts:
  double queue_ms = 0;      //   wait for the target's device
  double slot_ms = 0;       //   wait for a free slot
  double target_ms = 0;     //   computing time at the target
  double cpu_us = 0;        // the orchestrator's own processor time
  double admission_ms = 0;  // mean over requests

  std::map<std::string, Failures> failures;  // key: name of the status
};

// `off` are the runs to compare with, or null.
LoadSummary Summarize(const ModeRuns& mode, const ModeRuns* off);

// How long a load takes: "9 runs of at least 4s each: 36s or more". `runs`: of all modes and
// concurrencies.
std::string LoadDurationText(uint64_t runs, absl::Duration window);

// The number of failed requests in all runs.
uint64_t CountFailures(const std::vector<LoadTable>& tables);

std::string LoadTableText(const LoadTable& table);
// Only the ratios, one line for each concurrency. Returns an empty text when no table has the mode
// `off`.
std::string RatioText(const std::vector<LoadTable>& tables);

// Times to first token in milliseconds: after a silence, and of a system that was busy just before.
// The two values of a pair were measured one after the other.
struct IdlePair {
  double after_silence = 0;
  double busy = 0;
};

std::string IdleText(const std::vector<IdlePair>& pairs, double silence_s);

}  // namespace tandem::client
