// Texts that several drafters could draft, on a simulated clock: one request at a time, whose
// rounds take what their drafter takes and give what it gives for that stretch of the text. It
// compares a chooser with each drafter alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "orchestrator/draft/choice/common_drafters.h"

namespace tandem::orchestrator {

struct SimulatedDrafter {
  std::string name;
  double draft_token = 0;  // seconds
  double opening = 0;      // seconds to read the text at a switch
};

// A stretch of a text: the chance of a draft token of each drafter, and how many tokens it goes on.
struct Stretch {
  std::vector<double> alpha;  // as many as drafters
  uint32_t tokens = 0;
};
using SimulatedText = std::vector<Stretch>;

struct DrafterSetting {
  std::string name;
  std::vector<SimulatedDrafter> drafters;
  std::vector<SimulatedText> texts;  // one after the other, repeatedly
  double pass = 10e-3;               // seconds
  double row = 0.3e-3;               // of each draft token in a pass
  uint32_t draft_tokens = 4;
};

struct DrafterSpeeds {
  std::vector<double> alone;  // tokens per second with each drafter
  double best_by_text = 0;    // with the best one of each text
  double chosen = 0;
  double most_switches = 0;  // of a text, on average

  double best() const;
  std::string ToString() const;
};

// `texts`: so many, after `warm_up` others from which the chooser has learned. The speeds of
// drafters alone are expected values; those of the chooser are drawn with `seed`.
DrafterSpeeds MeasureDrafters(const DrafterSetting& setting, int warm_up, int texts, uint64_t seed);

// Chances, costs and lengths of many kinds. Every setting says in its name what is in it.
std::vector<DrafterSetting> DrafterGrid();

}  // namespace tandem::orchestrator
