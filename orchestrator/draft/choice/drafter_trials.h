// How readily a chooser of drafters tries (drafter_chooser.h). A plain value.
#pragma once

#include <cstdint>

namespace tandem::orchestrator {

// The defaults are for serving; tests make it change often.
struct DrafterTrials {
  uint32_t rounds = 8;      // of a trial, that count, at most; at least min_rounds
  uint32_t min_rounds = 3;  // before a trial is given up; at least 1
  double first_credit = 4;  // rounds that trials may lose at a text's beginning
  double wait = 16;         // rounds to the next trial of a drafter; doubles
  bool always = false;      // a trial begins whether or not it may pay
};

}  // namespace tandem::orchestrator
