// One sequence as a target holds it: a table model that answers Steps, and the checks of the wire.
// It fails the test when a Step breaks the contract: hashes, rising rounds, options with keep = 0
// only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/sampling/distribution.h"
#include "orchestrator/verify/verify_session.h"
#include "tests/support/table_model.h"

namespace tandem::orchestrator {

// What such a target says of the token that follows `context`.
sampling::Distribution DistributionAfter(const testing::TableModel& model,
                                         const speculation::SequenceSettings& setup,
                                         absl::Span<const uint32_t> context);
// setup.logprobs are wanted.
sampling::NodeLogprobs LogprobsOf(const testing::TableModel& model,
                                  const speculation::SequenceSettings& setup,
                                  absl::Span<const uint32_t> context,
                                  std::optional<uint32_t> candidate,
                                  std::optional<uint32_t> next_token);

class TableSequence {
 public:
  // `model` outlives this; it is only read.
  explicit TableSequence(const testing::TableModel& model) : model_(model) {}

  VerifyReply Answer(const VerifyStep& step);  // of a tree without log probabilities
  // All that is held, and what the rounds were.
  void Forget();
  bool open() const { return open_; }
  const std::vector<uint32_t>& tokens() const { return held_; }  // draft tokens, too

  // A planted fault: a node of a tree draws again and again while none of its children fits.
  bool draws_again = false;

 private:
  std::vector<acceptance::Entry> JudgeTree(const speculation::CandidateTree& tree) const;

  const testing::TableModel& model_;
  bool open_ = false;
  std::optional<speculation::SequenceSettings> setup_;
  std::vector<uint32_t> held_;
  uint64_t last_round_ = 0;
};

}  // namespace tandem::orchestrator
