// The rounds of a request as a picture: each round is a bar with its stages in colours or patterns,
// followed by the fate of its tokens. A summary says where the time went.
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
#include "client/common/terminal.h"
#include "client/generate/stages.h"

namespace tandem::client {

struct TimelineOptions {
  TerminalStyle style;
  bool all = false;           // shows all rounds, even if they are many
  uint64_t first_sample = 0;  // index of the request's first sample
};

// If all samples together have more rows than this, some rows are left out.
inline constexpr size_t kMaxRows = 40;

// Lines of at most style.width columns. `rounds` may be in any order; they are shown sample by
// sample. If there are many, the first and the slowest rounds of each sample are shown, and a
// histogram of all times.
std::string Timeline(absl::Span<const v1::RoundRecord> rounds, const TimelineOptions& options);

}  // namespace tandem::client
