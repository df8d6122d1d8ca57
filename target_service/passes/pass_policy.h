// Which of the waiting work goes into the next pass, and how large the pass may be.
//
// Two classes, and within each fair shares over streams, then over their sequences (fair_share.h):
//
//   rounds      Steps of few rows. They go whole, and before all else.
//   long work   prompts, and replays of what was committed before (after a failover). They go in
//               chunks, behind the rounds: they fill the pass, but take a bounded share of it while
//               rounds come. They always progress. A replay of which nearly all is still held has
//               few rows: it is a round.
//
// How large: beyond some number of rows a device computes all the time, and a larger pass only
// makes everybody wait for it. Where a pass takes the same time whatever is in it (a GPU with a
// small batch) it takes all that waits; where its time grows with every row, it stops where the
// price of a row is within some loss of the best one. The loss is small for rounds of one stream,
// whose requests all wait for each other anyway, and what a pass costs besides is counted there. It
// is larger where several streams compete, so that a stream with one request waits for a short pass
// of another's; and for prompts beside rounds.
//
// Where the engine fills a pass up to one of a few sizes, the rows up to that size cost nothing,
// and the pass aims at them.
//
// A pass is not limited in time besides: up to that number of rows, fewer would save little of it.
//
// Thread safety: none; one thread at a time. No model, no clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/scheduling/cost_curve.h"
#include "common/scheduling/fair_share.h"

namespace tandem::target_service {

// Rows that a prompt takes of a pass for its log probabilities: judging a row takes as long as a
// vocabulary is large, and the others of the pass wait for it.
inline constexpr int kMaxPromptLogprobRows = 64;

// What is left of one Step.
struct WaitingRows {
  base::StreamId stream{};
  base::SequenceId sequence{};  // one Step of each waits
  int prefill = 0;              // rows without logits: may be cut anywhere
  int verify = 0;         // rows with logits: all in one pass, with or after the last prefill row
  uint32_t priority = 0;  // among the sequences of its stream: 1 + priority shares
  // Of prefill in one pass, where the Step is long work; at least 1.
  int max_prefill = std::numeric_limits<int>::max();

  int total() const { return prefill + verify; }
};

struct PassLimits {
  int max_rows = 512;            // of one pass; at least any `verify`
  int pass_rows = 0;             // aimed at; 0: by the cost curve
  int prefill_rows = 128;        // of long work, while rounds come
  int short_rows = 34;           // a Step of at most so many rows is a round
  std::vector<int> row_buckets;  // EngineInfo::row_buckets
};

// Draft tokens per round, a moving average over some rounds of each of `sequences`. What a target
// says of it (Decoding, describe.proto) is where orchestrators meet.
inline void AverageDraftTokens(size_t draft_tokens, uint32_t sequences, double& average) {
  constexpr double kWeight = 0.25;  // of a round, where one sequence is decoded
  average += kWeight / std::max(sequences, 1u) * (static_cast<double>(draft_tokens) - average);
}

using Grant = scheduling::FairShare::Grant;  // all rows of a Step, or prefill rows only; at least 1

class PassPolicy {
 public:
  explicit PassPolicy(const PassLimits& limits);

  // `waiting`: in the order of arrival, each with at least one row. `streams`: those that have
  // asked for something lately. At least one grant when anything waits; at most limits.max_rows
  // rows.
  std::vector<Grant> FormPass(absl::Span<const WaitingRows> waiting,
                              const scheduling::CostCurve& curve, int streams);

  // Rows that a pass of rounds is to have; `compete`: several streams want some.
  int RowsAimedAt(const scheduling::CostCurve& curve, bool compete) const;
  // Rounds that a pass takes however many rows they have.
  static constexpr int MinRounds(bool compete) { return compete ? kMinRoundsShared : kMinRounds; }

 private:
  // A few rounds fit into any pass: a batch is never much dearer, and mostly much cheaper. Where
  // streams compete, as few as let a lone round in beside another stream's.
  static constexpr int kMinRounds = 4;
  static constexpr int kMinRoundsShared = 2;
  static constexpr double kOneStreamLoss = 0.125;
  static constexpr double kSharedLoss = 0.5;
  // What a pass costs besides the model's step: messages and wake-ups in three processes.
  static constexpr absl::Duration kOverhead = absl::Microseconds(500);
  static constexpr double kHardlyLonger = 1.05;
  // So many passes without a round, and prompts have the device for themselves.
  static constexpr int kRoundsCome = 4;
  // A pass of prompts alone has so many rows at least, however little more would save.
  static constexpr int kMinLongPass = 32;
  // Prompts are cut into pieces of so many rows where several share a pass.
  static constexpr int kPromptPiece = 64;

  bool IsRound(const WaitingRows& work) const;
  int FillBucket(int rows) const;

  const PassLimits limits_;
  scheduling::FairShare rounds_;
  scheduling::FairShare long_work_;
  int passes_without_round_ = kRoundsCome;

  bool long_work_stood_ = false;  // it waited in the last pass, and got nothing
};

}  // namespace tandem::target_service
