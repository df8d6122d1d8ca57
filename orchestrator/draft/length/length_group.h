// The length of blocks that requests of one kind choose together: those with the same drafter and
// rule. A request is often over before it could learn anything alone, and what a block costs is the
// peers' property.
//
// The choice maximises the expected tokens (acceptance_estimate.h) per time of a round
// (round_model.h), times what rounds of that length took more or less than the model says. The
// model holds for all streams of the target: it is computed from the target's cost curve and from
// what the target says of all that it decodes. So several orchestrators at one target come to the
// same choice, each for itself; and where two lengths are nearly as good, all take the one that is
// nearer to what the target decodes already, for half of the sequences at one and half at another
// is often worse than either.
//
// Where a draft may prepare blocks, a chain has them prepared for as many outcomes as pay
// (preparing_estimate.h).
//
// Where drafting wins by little, plain decoding is measured beside it now and then (plain_check.h).
//
// While plain decoding is the best, a few rounds of one sequence draft now and then, ever more
// rarely: a draft or a text may have changed. The model says what they cost.
//
// Thread-safe. Counts and times only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "common/concurrency/mutex.h"
#include "orchestrator/draft/length/acceptance_estimate.h"
#include "orchestrator/draft/length/plain_check.h"
#include "orchestrator/draft/length/policy.h"
#include "orchestrator/draft/length/preparing_estimate.h"
#include "orchestrator/draft/length/round_model.h"

namespace tandem::orchestrator {

class LengthGroup {
 public:
  // What a sequence remembers between its rounds. A plain value.
  struct Sequence {
    uint32_t shape = 0;         // of its last choice
    uint32_t rounds = 0;        // in a row with it
    bool has_drafted = false;   // its draft has read the text
    uint32_t probe_shape = 0;   // of the probe that it makes
    uint32_t probe_rounds = 0;  // that are left of it
  };

  // `ends_by_confidence`: the requests' blocks may end where their drafter doubts (LengthChoice).
  explicit LengthGroup(bool ends_by_confidence = false) : ends_by_confidence_(ends_by_confidence) {}

  // The choice for the next round of a sequence. Where the sequence does not know its draft yet,
  // the draft is taken to be able to do what that of the last sequence was.
  LengthChoice Next(LengthInputs inputs, Sequence& sequence);

  // A round of `sequence` was decided. What its first block took is not counted, only what it
  // brought: the draft reads the text for it. Without a Next, the way to the target alone counts.
  void Observe(const RoundRecord& round, Sequence& sequence);

  // The group keeps to blocks that are not empty.
  bool Drafts() const;

 private:
  // Rounds: as many as there are sequences, within these.
  static constexpr uint32_t kDecideEvery = 8, kDecideAtLeast = 1024;
  // Enough to see a draft that has become better; the first one reads the text.
  static constexpr uint32_t kProbeRounds = 9;
  static constexpr double kMargin = 0.01;  // that a draft must win, for it costs others' time, too
  static constexpr double kNearlyAsGood = 0.03;  // of the rate
  static constexpr double kOutcomesPay = 0.02;   // of a round's time, that more outcomes must win
  static constexpr uint32_t kMaxPreparing = 8;   // sequences, beyond which no draft prepares
  // Of a round's rows. Where one of two sequences drafts a token, they are not about as much.
  static constexpr double kAboutAsMuch = 0.24;
  // Decisions for plain decoding to the first probe, per share of a round that it loses; doubles.
  static constexpr double kFirstWait = 160, kMaxWait = 3000;
  static constexpr double kLengthMemory = 50;  // rounds of a correction, and of a Line
  static constexpr double kOtherLength = 2;    // a correction counts 2^-so much for the next length
  static constexpr double kWeight = 0.05;      // of a new time in a moving average

  // A straight line through the time at the draft by the length, with forgetting.
  struct Line {
    double weight = 0, k = 0, t = 0, kk = 0, kt = 0;
    void Add(double length, double seconds);
    void Fade(double rounds);  // it counts as so many at most
    double PerToken() const;
    double Fixed() const;
  };

  // How much longer rounds of a length take than the model says, in the logarithm.
  struct Correction {
    double weight = 0;  // 1: kLengthMemory rounds
    double log = 0;
  };

  void Decide(const LengthInputs& inputs) TANDEM_REQUIRES(mutex_);
  RoundParts PartsOf(const LengthInputs& inputs, const ByShape& drafted) const
      TANDEM_REQUIRES(mutex_);
  // With as many outcomes as pay.
  RoundTime PreparedTimeOf(const LengthInputs& inputs, const RoundParts& parts, PassTime pass_time,
                           uint32_t shape) TANDEM_REQUIRES(mutex_);
  uint32_t NearestToAll(uint32_t best, const ByShape& rates, const RoundParts& parts)
      TANDEM_REQUIRES(mutex_);
  bool Offered(uint32_t shape, const LengthInputs& inputs) const TANDEM_REQUIRES(mutex_);
  double CorrectionOf(uint32_t shape) const TANDEM_REQUIRES(mutex_);
  double PassSeconds(const LengthInputs& inputs, double rows) const TANDEM_REQUIRES(mutex_);
  double TargetNetwork() const TANDEM_REQUIRES(mutex_);  // in seconds, as the next
  double DraftNetwork() const TANDEM_REQUIRES(mutex_);
  void ProbeIfDue(const ByShape& rates) TANDEM_REQUIRES(mutex_);

  const bool ends_by_confidence_;
  mutable concurrency::Mutex mutex_;
  AcceptanceEstimate acceptance_ TANDEM_GUARDED_BY(mutex_);
  Line draft_ TANDEM_GUARDED_BY(mutex_);
  // Moving averages, in seconds; negative: unknown.
  double both_networks_ TANDEM_GUARDED_BY(mutex_) = -1;   // of rounds that asked the draft
  double target_network_ TANDEM_GUARDED_BY(mutex_) = -1;  // of plain rounds
  double pass_ TANDEM_GUARDED_BY(mutex_) = -1, pass_rows_ TANDEM_GUARDED_BY(mutex_) = -1;
  uint32_t max_nodes_ TANDEM_GUARDED_BY(mutex_) = 0;  // LengthInputs
  bool draft_ends_by_confidence_ TANDEM_GUARDED_BY(mutex_) = false;

  PreparingEstimate preparing_ TANDEM_GUARDED_BY(mutex_);
  PlainCheck plain_check_ TANDEM_GUARDED_BY(mutex_);
  std::array<Correction, kShapes> corrections_ TANDEM_GUARDED_BY(mutex_){};
  // Of the last decision.
  std::array<RoundTime, kShapes> times_ TANDEM_GUARDED_BY(mutex_){};
  std::array<uint32_t, kShapes> outcomes_ TANDEM_GUARDED_BY(mutex_){};
  std::array<bool, kShapes> shared_ TANDEM_GUARDED_BY(mutex_){};  // others draft about as much
  std::optional<uint32_t> best_ TANDEM_GUARDED_BY(mutex_);
  uint32_t chain_ TANDEM_GUARDED_BY(mutex_) = 4;  // the best one; 4 before anything was measured
  ZeroCause zero_ TANDEM_GUARDED_BY(mutex_) =
      ZeroCause::kSlowDraft;  // why it was none, the last time
  LengthEstimates estimates_ TANDEM_GUARDED_BY(mutex_);

  std::optional<uint32_t> probe_
      TANDEM_GUARDED_BY(mutex_);                   // a shape, that the next sequence tries
  uint32_t rounds_ TANDEM_GUARDED_BY(mutex_) = 0;  // since the last decision
  double plain_ TANDEM_GUARDED_BY(mutex_) = 0;     // decisions for it since the last probe
  double wait_ TANDEM_GUARDED_BY(mutex_) = kFirstWait;
};

}  // namespace tandem::orchestrator
