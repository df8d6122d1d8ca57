// What requests of one kind learn together about the shape of blocks: those with the same drafter
// and rule. A request is often over before it could learn anything alone, and what a block costs is
// the peers' property, not the request's.
//
// For each load, by the number of sequences, and each class of contexts, by their length, there is a search of
// its own (length_search.h). So when the load comes back, what was learned under it is still there. In a long
// context each row costs more, at the target and at the draft.
//
// Rounds of several sequences that begin after a pause of all requests do not count for the search at first: few
// sequences share a pass while prompts are read.
//
// Thread-safe. Counts and times only.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/concurrency/mutex.h"
#include "orchestrator/draft/length/acceptance_estimate.h"
#include "orchestrator/draft/length/block_replay.h"
#include "orchestrator/draft/length/confident_estimate.h"
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
    uint64_t tokens = 0;  // of its rounds
    BlockReplay::Text text;
  };

  // `ends_by_confidence`: the requests' blocks may end where their drafter doubts (LengthChoice).
  explicit LengthGroup(bool ends_by_confidence = false);

  // The choice for the next round of a sequence, while `sequences` are decoded at the same time. Where the sequence does
  // not know its draft yet, the draft is taken to be able to do what that of the last sequence was.
  LengthChoice Next(uint32_t sequences, LengthInputs inputs, Sequence& sequence);

  // A round was decided that asked. `sequence` is that of its Next.
  void Observe(const RoundRecord& round, Sequence& sequence);

  // The sequence's text is over.
  void Ended(const Sequence& sequence);

  // The group keeps to blocks that are not empty. A sequence that begins while others are tried does not read
  // its prompt for that.
  bool Drafts(uint32_t sequences, uint32_t context) const;

 private:
  static constexpr uint32_t kLoads = 12;
  static constexpr uint32_t kContexts = 4;
  static constexpr uint32_t kFirst = 4;   // before anything was measured
  static constexpr uint32_t kSettle = 2;  // rounds of a sequence in a phase that do not count
  static constexpr double kTexts = 256;   // beyond it old texts fade

  // Straight lines through the time at the draft by the length, with forgetting.
  struct Line {
    double weight = 0, k = 0, t = 0, kk = 0, kt = 0;
    void Add(double length, double seconds);
    double PerToken() const;
    double Fixed() const;
  };

  // Of a round, by its shape.
  struct Expected {
    RoundParts parts;
    ByShape tokens;
    // Standard deviation of the tokens, relative. Those of chains of a fixed length are counted on the same texts, and
    // their ratios are known well: 0.
    ByShape errors{};
    ByShape times{};  // after Expect
  };

  struct Level {
    std::unique_ptr<LengthSearch> search;  // null: this load did not occur yet
    Line draft;
    double draft_network = -1, target_network = -1;  // moving averages; negative: unknown
    double pass = 0, pass_rows = 0, pass_sequences = 0;
    AcceptanceEstimate acceptance;  // of chains of a fixed length
    ConfidentEstimate confident;    // of those that end by confidence
    bool due = false;               // the search's phase has enough rounds
    std::optional<ZeroCause> zero;
    std::optional<Expected> expected;  // none: a draft has told more since
    uint32_t expected_phases = 0;      // that it has served
    // Of acceptance and draft. Rounds without a draft leave them as they are.
    LengthEstimates estimates;

    void Estimate();
  };

  static uint32_t LevelOf(double sequences, uint32_t context);
  Level& At(uint32_t level, const LengthInputs& inputs) TANDEM_REQUIRES(mutex_);
  // What a new load or context begins with: `found`, the best shape of the nearest one, or a short chain that the
  // model says is clearly better here.
  uint32_t FirstShape(const Level& level, uint32_t found, const LengthInputs& inputs) const
      TANDEM_REQUIRES(mutex_);
  Expected Expect(const Level& level, double sequences,
                  absl::FunctionRef<double(double rows)> pass_time) const TANDEM_REQUIRES(mutex_);
  // Gives shapes that cannot be had kNotOffered tokens.
  void LeaveOut(const Level& level, const LengthInputs& inputs, ByShape& tokens) const
      TANDEM_REQUIRES(mutex_);
  void Advance(Level& level, double sequences, const LengthInputs& inputs) TANDEM_REQUIRES(mutex_);
  // Whether a round is one of the first of several sequences after a pause of all requests. To be asked once a round.
  bool IsStart(const RoundRecord& round) TANDEM_REQUIRES(mutex_);
  void CountAccepted(const RoundRecord& round, Sequence& sequence) TANDEM_REQUIRES(mutex_);

  const bool ends_by_confidence_;
  mutable concurrency::Mutex mutex_;
  TreeEstimate trees_ TANDEM_GUARDED_BY(mutex_);
  uint32_t max_nodes_ TANDEM_GUARDED_BY(mutex_) = 0;  // LengthInputs
  bool draft_ends_by_confidence_ TANDEM_GUARDED_BY(mutex_) = false;
  double load_ TANDEM_GUARDED_BY(mutex_) = 0;   // sequences, a moving average
  double texts_ TANDEM_GUARDED_BY(mutex_) = 0;  // that are over, and their tokens
  double text_tokens_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::optional<concurrency::Instant> last_decided_ TANDEM_GUARDED_BY(mutex_);
  // Rounds since the last pause, up to those that do not count. No pause yet: the search leaves its first phase out.
  uint32_t since_pause_ TANDEM_GUARDED_BY(mutex_) = std::numeric_limits<uint32_t>::max();
  std::vector<Level> levels_ TANDEM_GUARDED_BY(mutex_);  // [LevelOf]
};

}  // namespace tandem::orchestrator
