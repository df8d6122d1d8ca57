// What texts so far got from each drafter: the prior of a text that begins. Texts of one kind share a
// history: those with the same rule and size of a tree. What a drafter brings belongs to the text, and
// what a round with it takes belongs to the peers and to their load. So tokens and times are kept
// apart, for each load.
//
// Tokens a round are those of each text's first rounds with a drafter, whether it was kept or not. All
// rounds would say how well a drafter does for the texts that chose it, which is better than what a new
// text gets.
//
// Thread-safe. Counts and times only. Bounded: kMaxNames drafters; further ones are not remembered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/concurrency/mutex.h"

namespace tandem::orchestrator {

class DrafterHistory {
 public:
  static constexpr size_t kMaxNames = 64;
  static constexpr uint32_t kKnownTexts = 3;
  static constexpr uint32_t kRevisitEvery = 32;

  // Of a text that nothing is known of.
  struct Expectation {
    double tokens = 0;   // a round, on average over texts
    double spread = 0;   // standard deviation of it from text to text
    double seconds = 0;  // a round
    // Seconds that a switch to this drafter takes, beyond a round; absent: there was none yet.
    std::optional<double> opening;
  };

  // Absent: no text was measured with this drafter yet. Where none was under this load, the nearest
  // load's.
  std::optional<Expectation> Expect(const std::string& drafter, uint32_t sequences) const;

  // A text had so many tokens a round in its first rounds with the drafter. `noise` is the variance of
  // that mean by the rounds' own: what two equal texts would differ by.
  void AddText(const std::string& drafter, uint32_t sequences, double tokens, double noise);
  // A round with it took so long.
  void AddRound(const std::string& drafter, uint32_t sequences, double seconds);
  // The first round after a switch to it took so much longer than its others.
  void AddOpening(const std::string& drafter, double seconds);

  // Whether a text that begins is to begin with this drafter to learn of it: while fewer than
  // kKnownTexts are known, for the first that ask, and again after more have asked, for those may have
  // come to nothing.
  bool BeginToLearn(const std::string& drafter);
  // A text begins. True for one in kRevisitEvery: it is to begin with the most promising drafter of
  // those that are not the best. So a first impression does not stay for ever where texts are too short
  // for trials.
  bool BeginToRevisit();

  // The load's class: 1, 2-3, 4-7, … sequences.
  static uint32_t LevelOf(uint32_t sequences);

 private:
  static constexpr size_t kLevels = 12;

  struct Level {
    double texts = 0;  // that fade
    double tokens = 0, variance = 0, noise = 0;
    double rounds = 0, seconds = 0;
  };
  struct Drafter {
    std::array<Level, kLevels> levels;
    double openings = 0, opening = 0;
    uint32_t asked = 0;  // BeginToLearn
  };

  Drafter* Find(const std::string& drafter) TANDEM_REQUIRES(mutex_);

  mutable concurrency::Mutex mutex_;
  uint32_t begun_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Drafter> drafters_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
