// What requests of one kind learn together about the shape of blocks: those with the same drafter
// and rule. A request is often over before it could learn anything alone, and what a block costs is
// the peers' property, not the request's.
//
// For each load, by the number of sequences, and each class of contexts, by their length, there is a search of
// its own (length_search.h). So when the load comes back, what was learned under it is still there. In a long
// context each row costs more, at the target and at the draft.
//
// Thread-safe. Counts and times only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/draft/length/acceptance_estimate.h"
#include "orchestrator/draft/length/length_search.h"
#include "orchestrator/draft/length/policy.h"
#include "orchestrator/draft/length/round_model.h"
#include "orchestrator/draft/length/tree_estimate.h"

namespace tandem::orchestrator {

class LengthGroup {
 public:
  // What a sequence remembers between its rounds. A plain value.
  struct Sequence {
    uint32_t level = 0;
    uint64_t phase = 0;
    uint32_t rounds = 0;  // of the phase
    uint32_t shape = 0;   // of the last choice
  };

  // `ends_by_confidence`: the requests' blocks may end where their drafter doubts (LengthChoice).
  explicit LengthGroup(bool ends_by_confidence = false);

  // The choice for the next round of a sequence, while `sequences` are decoded at the same time.
  LengthChoice Next(uint32_t sequences, const LengthInputs& inputs, Sequence& sequence);

  // A round was decided that asked. `sequence` is that of its Next.
  void Observe(const RoundRecord& round, Sequence& sequence);

  // The group keeps to blocks that are not empty. A sequence that begins while others are tried does not read
  // its prompt for that.
  bool Drafts(uint32_t sequences, uint32_t context) const;

 private:
  static constexpr uint32_t kLoads = 12;
  static constexpr uint32_t kContexts = 4;
  static constexpr uint32_t kFirst = 4;   // before anything was measured
  static constexpr uint32_t kSettle = 2;  // rounds of a sequence in a phase that do not count

  // Straight lines through the time at the draft by the length, with forgetting.
  struct Line {
    double weight = 0, k = 0, t = 0, kk = 0, kt = 0;
    void Add(double length, double seconds);
    double PerToken() const;
    double Fixed() const;
  };

  struct Level {
    std::unique_ptr<LengthSearch> search;  // null: this load did not occur yet
    Line draft;
    double draft_network = -1, target_network = -1;  // moving averages; negative: unknown
    double pass = 0, pass_rows = 0, pass_sequences = 0;
    double round = -1;  // time of a round of the best shape, a moving average; negative: unknown
    AcceptanceEstimate
        acceptance;    // of chains; a load of its own, because blocks end by its min_confidence
    bool due = false;  // the search's phase has enough rounds
    std::optional<ZeroCause> zero;
    double min_confidence = 0;
    double worthwhile =
        -1;  // the chance below which a further candidate costs more than it brings, averaged
    // What the draft's confidence is multiplied with, 1/16 to 1; and of chains that ended by it since it was set
    // last, how many there were, and how many were accepted whole.
    double trust = 1;
    double ended = 0, ended_accepted = 0;
  };

  static uint32_t LevelOf(double sequences, uint32_t context);
  Level& At(uint32_t level, const LengthInputs& inputs) TANDEM_REQUIRES(mutex_);
  // What a new load or context begins with: `found`, the best shape of the nearest one, or a short chain that the
  // model says is clearly better here.
  uint32_t FirstShape(const Level& level, uint32_t found, const LengthInputs& inputs) const
      TANDEM_REQUIRES(mutex_);
  RoundParts Parts(const Level& level, double sequences) const TANDEM_REQUIRES(mutex_);
  void Advance(Level& level, double sequences, const LengthInputs& inputs) TANDEM_REQUIRES(mutex_);
  ByShape Tokens(const Level& level) const TANDEM_REQUIRES(mutex_);
  // The same, of what the peers take and what is another block than the one before.
  ByShape OfferedTokens(const Level& level, const LengthInputs& inputs) const
      TANDEM_REQUIRES(mutex_);
  void CountAccepted(const RoundRecord& round, const Sequence& sequence) TANDEM_REQUIRES(mutex_);
  // The chance of a whole chain behind which the next candidate just pays.
  static double WorthwhileChain(const Level& level, const RoundParts& parts,
                                absl::FunctionRef<double(double rows)> pass_time,
                                const ByShape& times);
  static bool CountTrust(double chain, Level& level);
  static void SetMinConfidence(Level& level, double min_confidence, bool always);

  const bool ends_by_confidence_;
  mutable concurrency::Mutex mutex_;
  TreeEstimate trees_ TANDEM_GUARDED_BY(mutex_);
  double load_ TANDEM_GUARDED_BY(mutex_) = 0;            // sequences, a moving average
  std::vector<Level> levels_ TANDEM_GUARDED_BY(mutex_);  // [LevelOf]
};

}  // namespace tandem::orchestrator
