// What texts so far got from each drafter: where a text of the same kind begins, under a like load.
//
// Of each text only its first rounds with a drafter count, whether it kept that drafter or not. All
// rounds would say how well a drafter does for the texts that chose it, which is better than what a
// new text gets.
//
// Counts and times only. Bounded: beyond kMaxKnown drafters of kinds no more are remembered.
// Thread-safe.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "common/acceptance/rule.h"
#include "common/concurrency/mutex.h"

namespace tandem::orchestrator {

// Sums over rounds.
struct DrafterSums {
  double rounds = 0, tokens = 0, seconds = 0;
  double squares = 0;  // of each round's tokens

  void Scale(double factor) {
    for (double* sum : {&rounds, &tokens, &seconds, &squares}) *sum *= factor;
  }
  void Add(const DrafterSums& more) {
    rounds += more.rounds;
    tokens += more.tokens;
    seconds += more.seconds;
    squares += more.squares;
  }
};

// What is known of a drafter from other texts.
struct CommonDrafter {
  // Texts, or rounds of a text, after which an old one counts 1/e: enough to see past the noise,
  // few enough to follow a text that changes.
  static constexpr double kMemory = 32;
  static constexpr double kFade = 1 - 1 / kMemory;

  DrafterSums sums;         // of texts' first rounds; old texts fade
  double text_squares = 0;  // of each text's mean tokens, as often as it has rounds in sums
  double switches = 0, switch_seconds = 0;  // what a switch to it took beyond a round, likewise

  // A text's first rounds with it; at least one.
  void AddText(const DrafterSums& rounds) {
    sums.Scale(kFade);
    sums.Add(rounds);
    text_squares = kFade * text_squares + rounds.tokens * rounds.tokens / rounds.rounds;
  }
  void AddSwitch(double seconds) {
    switches = kFade * switches + 1;
    switch_seconds = kFade * switch_seconds + seconds;
  }
};

class CommonDrafters {
 public:
  // Texts in a row that may begin with a drafter to learn of it: texts of three sorts by turns show
  // two of each.
  static constexpr uint64_t kLearnTexts = 6;
  static constexpr size_t kMaxKnown = 2048;  // drafters of kinds, of some 200 bytes each

  // Texts that tell something of each other.
  struct Kind {
    acceptance::Rule rule = acceptance::Rule::kSpeculative;
    uint32_t nodes = 0;  // of a tree; 0: chains
    int load = 0;        // LoadOf
    auto operator<=>(const Kind&) const = default;
  };
  // The class of so many sequences at the same time: 1, 2 to 7, 8 to 31, 32 to 127, …
  static int LoadOf(uint32_t sequences) {
    return static_cast<int>(std::bit_width(std::max(sequences, 1u))) / 2;
  }

  // `always`: choosers try another drafter all the time, for one round each, whether or not that
  // may pay. For tests.
  explicit CommonDrafters(bool always = false) : always_(always) {}
  bool always() const { return always_; }

  CommonDrafter Get(const Kind& kind, const std::string& drafter) const {
    concurrency::MutexLock lock(mutex_);
    const auto known = drafters_.find({kind, drafter});
    return known == drafters_.end() ? CommonDrafter() : known->second.known;
  }
  void AddText(const Kind& kind, const std::string& drafter, const DrafterSums& rounds) {
    concurrency::MutexLock lock(mutex_);
    if (Drafter* const one = Find(kind, drafter)) one->known.AddText(rounds);
  }
  void AddSwitch(const Kind& kind, const std::string& drafter, double seconds) {
    concurrency::MutexLock lock(mutex_);
    if (Drafter* const one = Find(kind, drafter)) one->known.AddSwitch(seconds);
  }

  // A text that begins may begin with this drafter to learn of it. True for the first kLearnTexts
  // that ask, and then for the 4th, 8th, 16th, …
  bool BeginToLearn(const Kind& kind, const std::string& drafter) {
    concurrency::MutexLock lock(mutex_);
    Drafter* const one = Find(kind, drafter);
    if (one == nullptr) return false;
    return ++one->asked <= kLearnTexts || std::has_single_bit(one->asked);
  }

 private:
  struct Drafter {
    CommonDrafter known;
    uint64_t asked = 0;  // BeginToLearn
  };

  Drafter* Find(const Kind& kind, const std::string& drafter) TANDEM_REQUIRES(mutex_) {
    const auto key = std::pair(kind, drafter);
    if (drafters_.size() >= kMaxKnown && drafters_.find(key) == drafters_.end()) return nullptr;
    return &drafters_[key];
  }

  const bool always_;
  mutable concurrency::Mutex mutex_;
  std::map<std::pair<Kind, std::string>, Drafter> drafters_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
