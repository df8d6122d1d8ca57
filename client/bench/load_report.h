// What many requests at once came to, mode beside mode.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/bench/records.h"
#include "client/common/stats.h"

namespace tandem::client {

struct ModeRuns {
  BenchMode mode;
  std::vector<LoadRun> runs;  // the r-th of every mode ran one after the other
};

struct LoadTable {
  uint32_t concurrency = 0;
  std::vector<ModeRuns> modes;
};

// Of all runs of a mode together. Absent: nobody said it.
struct LoadSummary {
  uint64_t requests = 0;        // that ended well; times and rounds are theirs
  Spread tokens_per_second;     // run by run
  std::optional<Spread> ratio;  // of it to that of `off` in the same turn
  Percentiles first_token_ms;
  Percentiles per_token_ms;  // of a request: the mean time between its tokens

  // From the target's counters, in the windows.
  std::optional<double> pass_sequences;  // a pass
  std::optional<double> pass_rows;
  std::optional<double> device_share;  // of the time in which the device computes; 0 to 1
  // From the requests: the pass that decided a round, mean over rounds.
  std::optional<double> round_sequences;
  std::optional<double> round_rows;

  uint64_t rounds = 0;
  std::map<std::string, uint64_t> rounds_without_draft;  // by cause
  double undrafted_share =
      0;  // of the rounds that were meant to have a draft, those that had none; 0 to 1
  double tokens_per_round = 0;
  double accepted_per_round = 0;
  // A round, mean over rounds.
  double draft_ms = 0;      // waiting for the block
  double verify_ms = 0;     // waiting for the verdict; of that:
  double queue_ms = 0;      //   for the target's device
  double slot_ms = 0;       //   for a free slot
  double target_ms = 0;     //   while it computed
  double cpu_us = 0;        // the orchestrator's own processor time
  double admission_ms = 0;  // a request, mean

  std::map<std::string, Failures> failures;  // by the status' name
};

// `off`: the runs to compare with; null: none.
LoadSummary Summarize(const ModeRuns& mode, const ModeRuns* off);

// Requests that failed, of all runs.
uint64_t CountFailures(const std::vector<LoadTable>& tables);

std::string LoadTableText(const LoadTable& table);
// The ratios alone, a line a concurrency. Empty when no table has `off`.
std::string RatioText(const std::vector<LoadTable>& tables);

// Time to first token, in milliseconds: after a silence, and of a system that was busy just before;
// pair by pair.
struct IdlePair {
  double after_silence = 0;
  double busy = 0;
};

std::string IdleText(const std::vector<IdlePair>& pairs, double silence_s);

}  // namespace tandem::client
