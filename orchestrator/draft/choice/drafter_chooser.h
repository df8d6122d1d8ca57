// Chooses which of a request's drafters drafts: the one with the highest throughput for this text.
//
// What is known. A drafter's tokens and seconds per round are means over this text's rounds with
// it, in which old ones fade, with what other texts got (common_drafters.h) as some rounds more. So
// a text begins with the common best, and soon goes its own way. It changes to another drafter that
// it has tried once that one's mean is clearly better.
//
// Trials. A drafter that was not measured lately may be as much better as texts differ. It is tried
// if that would be better than the best, if the rest of the text may earn what the trial costs, and
// if the credit pays for it: some rounds at the text's beginning, and a share of the time since.
// What it costs are its rounds and both switches, for a drafter reads the text so far. It ends as
// soon as it is clearly worse. The wait for the next trial of a drafter doubles with each that
// changed nothing. Some texts begin with the trial of a drafter of which too little is known.
// Rounds in which the length policy tries a length do not count.
//
// Plain decoding is left to the length policies: each drafter has its own, and may be
// given length 0.
//
// A drafter whose draft fails twice in a row is left alone for a while, which doubles, and one that
// no draft takes is left for good. If all are, the last one is kept, and rounds are plain.
//
// It sees counts and times of rounds that are decided. It never sees a token or a probability. So
// who drafts a block does not depend on what is drawn for it, and the text keeps the target's
// distribution under every exact rule.
//
// Belongs to one sample. Not thread-safe. No clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/acceptance/rule.h"
#include "orchestrator/draft/choice/common_drafters.h"
#include "orchestrator/request/drafter_choice.h"
#include "orchestrator/request/round_record.h"

namespace tandem::orchestrator {

class DrafterChooser {
 public:
  // `names` has 1 to kMaxDrafters different drafters; the first is the one to begin with where
  // nothing is known. `nodes` are those of a tree; 0: chains. `common` outlives this object.
  DrafterChooser(const std::vector<std::string>& names, acceptance::Rule rule, uint32_t nodes,
                 CommonDrafters& common);

  ~DrafterChooser();
  DrafterChooser(const DrafterChooser&) = delete;
  DrafterChooser& operator=(const DrafterChooser&) = delete;

  // Who drafts next. `sequences` are decoded at the same time; the text may get `tokens_left` more.
  DrafterChoice Next(uint32_t sequences, uint32_t tokens_left);
  // A round was decided whose drafter Next chose. Rounds that did not ask are not told.
  void Observe(const RoundRecord& round);

  // The first round of this drafter since it was opened has not been decided: it is to read the
  // text.
  bool opening() const { return rounds_ == 0; }

 private:
  // Rounds to be left alone for, twice as many each time.
  struct Backoff {
    double wait = CommonDrafter::kMemory;
    double until = 0;  // a round of the text
    void Fail(double now) {
      until = now + wait;
      wait *= 2;
    }
  };
  struct Arm {
    std::string name;
    CommonDrafter common;  // under this load
    DrafterSums sums;      // of this text; old rounds fade
    DrafterSums first;     // its first rounds, for other texts
    bool told = false;     // to them
    Backoff trials;        // that changed nothing
    Backoff faults;
    bool failed = false;  // in its last round
  };
  struct Value {
    double tokens = 0, seconds = 0;  // a round
    double rate = 0;                 // tokens per second
    double at_most = 0;              // the same, if it is as much better as texts differ
    double switch_seconds = 0;       // beyond a round
  };

  bool Usable(const Arm& arm) const { return arm.faults.until <= now_; }
  std::vector<Value> Values() const;
  void SetLoad(uint32_t sequences);
  void Begin();
  void Steady(uint32_t tokens_left);
  bool IsTrialDue(uint32_t drafter, const std::vector<Value>& values, uint32_t tokens_left) const;
  void EndTrialIfDue();
  void Keep(uint32_t drafter, DrafterReason reason);
  void Use(uint32_t drafter);
  void Tell(Arm& arm);

  CommonDrafters& common_;
  CommonDrafters::Kind kind_;
  std::vector<Arm> arms_;
  double now_ = 0;  // rounds of the text
  bool begun_ = false;
  uint32_t best_ = 0;
  DrafterReason reason_ = DrafterReason::kFirst;  // of the best
  uint32_t used_ = 0;                             // the best one, or the one on trial
  bool trial_ = false;
  uint32_t rounds_ = 0, counted_ = 0;  // with the used one since it was opened
  double credit_;                      // rounds that trials may lose
};

}  // namespace tandem::orchestrator
