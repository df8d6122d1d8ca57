// How a drafter that could sample proposes: Proposal of sampling.proto as a plain value. Its codec
// is proposal_codec.h.
#pragma once

#include <cstdint>

namespace tandem::speculation {

enum class Proposal : uint8_t {
  kDefault,  // as the draft service was told at its start
  // Draws each token from its q, and sends q; with the target's own noise under rule coupled, which
  // needs no q. The most likely token at temperature 0.
  kSampled,
  // Its most likely token, as a one-hot q: exact under every rule, with fewer accepted at high
  // temperatures as a rule, and more for a target that is surer than its draft.
  kGreedy,
};

}  // namespace tandem::speculation
