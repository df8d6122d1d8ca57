// Measures plain decoding beside drafting. Rounds that draft correct the model of their own length
// (length_group.h), and nothing corrects that of plain decoding, whose passes are faster than the
// target's cost curve says where draft and target share processors: the curve is of passes while
// others draft. So, while drafting wins by little, all sequences of a group decode plainly for some
// rounds now and then, ever more rarely. Where they were faster twice in a row, the group keeps to
// plain decoding for a while, and for longer each time.
//
// For an orchestrator that is alone at its target: beside others that draft, plain rounds say
// little.
//
// Not thread-safe. Rates are in tokens per second of one sequence.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tandem::orchestrator {

class PlainCheck {
 public:
  // A decision (LengthGroup) between the best that drafts and plain decoding, by their expected
  // rates, with so many sequences at the target. True: the group is to decode plainly, whatever
  // these rates say.
  bool Overrules(double drafting, double plain, uint32_t sequences) {
    if (2 * sequences > 3 * sequences_ || 3 * sequences < 2 * sequences_) {
      *this = {};
      sequences_ = sequences;
    }
    if (drafting > kClear * plain) held_ = 0;
    if (held_ > 0) return --held_ > 0;
    if (drafting <= plain || drafting > kClear * plain || ++decisions_ < wait_) return false;
    decisions_ = 0;
    drafting_ = drafting;
    rounds_left_ = kRounds * sequences;
    rounds_ = seconds_ = 0;
    return false;
  }

  // A round of the group begins. True: it is to be plain, and nothing is to be decided.
  bool Runs() {
    if (rounds_left_ == 0) return false;
    if (--rounds_left_ == 0) End();
    return true;
  }

  // The `round`th plain round in a row of a sequence took so many seconds. The first ones may still
  // share passes with others that draft.
  void Observe(uint32_t round, double seconds) {
    if (rounds_left_ == 0) return;
    seconds_ += seconds;
    rounds_ += 1;
    if (round >= kRounds) End();
  }

 private:
  static constexpr double kClear = 1.5;  // times plain decoding: the model is not wrong by so much
  static constexpr uint32_t kRounds = 12;                                        // of each sequence
  static constexpr uint32_t kFirstWait = 12, kFirstHold = 200, kMaxWait = 3000;  // decisions

  void End() {
    rounds_left_ = 0;
    if (rounds_ == 0) return;
    if (rounds_ < drafting_ * seconds_) {
      lost_ = 0;
      hold_ = kFirstHold;
      wait_ = std::min(2 * wait_, kMaxWait);
      return;
    }
    wait_ = kFirstWait;
    if (++lost_ < 2) return;
    held_ = hold_;
    hold_ = std::min(2 * hold_, kMaxWait);
  }

  uint32_t sequences_ = 0;
  uint32_t decisions_ = 0,
           wait_ = kFirstWait;             // for drafting, since the last check and to the next
  uint32_t held_ = 0, hold_ = kFirstHold;  // decisions for plain decoding to come
  uint32_t lost_ = 0;                      // checks in a row
  uint32_t rounds_left_ = 0;               // of the check
  double rounds_ = 0, seconds_ = 0, drafting_ = 0;
};

}  // namespace tandem::orchestrator
