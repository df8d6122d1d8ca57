// The rounds of a request as a picture: a bar a round, its stages in colours or patterns, what became of
// its tokens, and where the time went in all.
//
//   timeline: 4 rounds, 61.9 ms
//     █ draft  █ network  █ slot  █ queue  █ device  █ own
//     ● accepted  ○ rejected  + the target's own token
//
//   round at ms took  0        10        20 ms    tokens         pass
//       0   0.4 21.3  ██████████████████████      + first-round  #17 ×1
//       1  21.8 14.0  █████████████               ●●●○+          #18 ×3
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "client/generate/stages.h"
#include "client/generate/terminal.h"

namespace tandem::client {

struct TimelineOptions {
  TerminalStyle style;
  bool all = false;           // of many rounds, too: not just the first and the slowest
  uint64_t first_sample = 0;  // index of the request's first sample, as people know it
};

// More rows than this, of all samples together, are many.
inline constexpr size_t kMaxRows = 40;

// Lines of at most style.width columns. Rounds may come in any order; they are shown sample by sample. Of
// many, the first and the slowest of each sample and how long they all took.
std::string Timeline(absl::Span<const v1::RoundRecord> rounds, const TimelineOptions& options);

}  // namespace tandem::client
