// The cells in which texts are held against the target's distribution: rule x length of the block x
// drafter x what the options do, so that each pair of values meets in a cell, and each single
// option meets each rule.
#pragma once

#include <array>
#include <cstdint>
#include <ostream>
#include <vector>

#include "absl/strings/string_view.h"
#include "tests/integration/distribution.h"
#include "tests/integration/table_pair.h"

namespace tandem::testing {

enum class CellRule : uint8_t { kSpeculative, kBlock, kCoupled };
enum class CellLength : uint8_t { kOne, kTwo, kFour, kByVerdict };
enum class CellDrafter : uint8_t { kSampled, kGreedy, kPromptLookup, kRandom };
// What the options do to the logits; a cell of a family has one or more of its options.
enum class CellFamily : uint8_t {
  kPlain,        // nothing
  kTemperature,  // of target, of draft
  kTruncation,   // top-k, top-p, min-p
  kLists,        // bias, bans, allowed tokens
  kPenalties,    // presence, frequency, repetition
  kEnds,         // an end token and minimum tokens; some with one of each of all others
};
// How many values the four factors have, in the order above.
inline constexpr std::array<uint8_t, 4> kCellLevels = {3, 4, 4, 6};

struct ExactnessCell {
  const char* name;
  CellRule rule;
  CellLength length;
  CellDrafter drafter;
  CellFamily family;
  TablePair pair;
  sampling::SamplingParameters sampling;
  double draft_temperature = 0;  // 0: the request's
  uint32_t text_tokens = 6;

  std::array<uint8_t, 4> levels() const;  // of the four factors
};
void PrintTo(const ExactnessCell& cell, std::ostream* out);

const std::vector<ExactnessCell>& ExactnessCells();
// CHECKs that there is one.
const ExactnessCell& ExactnessCellNamed(absl::string_view name);

// Texts that a cell has where nobody says otherwise: as many as show the faults that are planted
// into its rule (distribution_controls_test.cc). Those of rule block show late, and the weakest in
// sampled blocks of four with 20,000 texts alone: the cell of such blocks has as many.
int UsualTexts(const ExactnessCell& cell);

// What asks for `count` texts of the cell (rounded down to whole requests).
TextsOptions TextsOf(const ExactnessCell& cell, int count);

}  // namespace tandem::testing
