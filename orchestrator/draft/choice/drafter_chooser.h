// Chooses which of a request's drafters drafts: the one with the most tokens a time for this text.
//
//   phase    rounds of                     then
//   steady   the best drafter so far       a trial, if one is due; or another one that was tried, if
//                                          the best has got worse
//   trial    another drafter               the better of the two, and steady
//
// What is known. A drafter's tokens a round and seconds a round are means over this text's rounds with
// it, that forget, together with what other texts got (drafter_history.h) as some rounds more. So a
// text begins with the common best, and soon goes its own way. A drafter that was not measured lately
// may be as much better as texts differ. It is tried if it may be better than the best, by that.
//
// What trials cost is bounded. A trial ends as soon as it is clearly worse, and after DrafterTrials::rounds. It
// begins only if the text is long enough to earn it, and if the credit pays for it: some rounds
// at the text's beginning, and kShare of the time since. Reading the text so far belongs to its cost.
// The wait for the next trial of a drafter doubles with each that changed nothing. When the best gets
// clearly worse, the text has changed: the waits end, and there is some credit more.
//
// To change, another drafter must win kGain. Rounds in which the length policy tries a length do not
// count. The target alone is a candidate of the length policies: each drafter has its own, and may be
// given length 0.
//
// A drafter whose draft is lost or broken kMaxFaults times in a row is left alone for a while, and one
// that no draft takes is left for good. If all are, the first one is kept, and rounds are plain.
//
// It sees counts and times of rounds that are decided. It never sees a token or a probability. So who
// drafts a block does not depend on what is drawn for it, and the text keeps the target's distribution
// under every exact rule.
//
// Belongs to one sample. Not thread-safe; the history is shared. No clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/draft/choice/drafter_history.h"
#include "orchestrator/draft/choice/drafter_trials.h"
#include "orchestrator/request/drafter_choice.h"
#include "orchestrator/request/round_record.h"

namespace tandem::orchestrator {

class DrafterChooser {
 public:
  // `names` has 1 to kMaxDrafters different drafters; the first is the one to begin with where
  // nothing is known. `history` is not null.
  DrafterChooser(std::vector<std::string> names, std::shared_ptr<DrafterHistory> history,
                 DrafterTrials trials = {});

  ~DrafterChooser();
  DrafterChooser(const DrafterChooser&) = delete;
  DrafterChooser& operator=(const DrafterChooser&) = delete;

  // Who drafts next. `sequences` are decoded at the same time; the text may get `tokens_left` more.
  DrafterChoice Next(uint32_t sequences, uint32_t tokens_left);
  // A round was decided whose drafter Next chose. Rounds that did not ask are not told.
  void Observe(const RoundRecord& round);

  const std::vector<std::string>& names() const { return names_; }
  // The first round of this drafter since it was opened has not been decided: it is to read the text.
  bool opening() const { return rounds_ == 0; }

 private:
  struct Arm {
    // Sums over this text's rounds, that forget.
    double weight = 0, tokens = 0, seconds = 0;
    // The first rounds of all, for the history.
    uint32_t first_rounds = 0;
    double first_tokens = 0, first_squares = 0;
    bool told = false;
    double since = 1e9;   // rounds since its last trial
    uint32_t fails = 0;   // trials in a row that changed nothing
    uint32_t faults = 0;  // rounds in a row in which its draft failed
    double away = 0;      // rounds that it is left alone for
    uint32_t times_away = 0;
    bool refused = false;
  };
  struct Value {
    double rate = 0;     // logarithm of tokens a second
    double at_most = 0;  // the same, if it is better than it seems
    double seconds = 0;  // a round
    double opening = 0;  // seconds of a switch to it
  };

  void Begin();
  void Tell(uint32_t drafter);  // the history, once
  void SetLoad(uint32_t sequences);
  bool Usable(const Arm& arm) const { return !arm.refused && arm.away <= 0; }
  std::vector<Value> Values() const;
  // The best of those that can be used, among those with some rounds or history. Absent: none can.
  std::optional<uint32_t> BestUsable(const std::vector<Value>& values) const;
  void Steady(uint32_t tokens_left);
  void EndTrialIfDue();
  void Keep(uint32_t drafter, DrafterReason reason);
  void Use(uint32_t drafter);
  bool Pays(const std::vector<Value>& values, uint32_t drafter, uint32_t tokens_left) const;
  void NoticeChange(const std::vector<Value>& values);
  double Wait(const Arm& arm) const;

  const std::vector<std::string> names_;
  const std::shared_ptr<DrafterHistory> history_;
  const DrafterTrials trials_;
  std::vector<Arm> arms_;
  bool begun_ = false;
  double load_ = 0;     // sequences, a moving average
  uint32_t level_ = 1;  // sequences that stand for the load's class

  uint32_t best_ = 0;
  uint32_t used_ = 0;
  DrafterReason reason_ = DrafterReason::kFirst;  // of the best
  bool trial_ = false;
  uint32_t rounds_ = 0;    // with the used one since it was opened
  bool switched_ = false;  // it was opened by a switch
  uint32_t trial_rounds_ = 0, trial_counted_ = 0;
  double spent_seconds_ = 0, spent_tokens_ = 0;  // of a trial and its ways there and back
  bool returning_ = false;
  double credit_ = 0;  // seconds
  double judged_ = 0;  // the best's rate when it was judged
  double since_change_ = 1e9;
};

}  // namespace tandem::orchestrator
