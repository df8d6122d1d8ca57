// What a lone request loses to a crowd of another orchestrator's: both share one target and one
// draft.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/integration/cluster.h"
#include "tests/integration/front.h"
#include "tests/integration/requests.h"

namespace tandem::testing {

struct FairnessOptions {
  uint32_t crowd = 64;         // requests that the other orchestrator keeps running
  int alternations = 5;        // alone, beside the crowd, alone, …
  v1::GenerateRequest lone;    // of the one orchestrator, one after the other
  int lone_requests = 1;       // in each half of an alternation
  v1::GenerateRequest member;  // of the crowd
};

// The lone one's rounds in one half of an alternation.
struct Rounds {
  double mean_ms = 0;
  double median_ms = 0;
  // A round, mean, as the replies say.
  double draft_ms = 0;   // waiting for its block
  double queue_ms = 0;   // waiting for the target's device
  double target_ms = 0;  // while it computed
  double sequences = 0;  // of the pass that decided it
  double rows = 0;
  double undrafted = 0;  // share of the rounds without a draft
};

struct Alternation {
  Rounds alone;
  Rounds beside;
  double crowd_tokens_per_second = 0;
  uint64_t crowd_failures = 0;

  double mean_ratio() const { return beside.mean_ms / alone.mean_ms; }
  double median_ratio() const { return beside.median_ms / alone.median_ms; }
};

struct FairnessReport {
  std::vector<Alternation> alternations;
  std::vector<Reply> lone;  // all of the lone one's replies, in the order in which they came
};

// `cluster`'s own orchestrator serves the crowd, `front` the lone one; both have the same services.
// CHECKs that the lone one's requests succeed.
FairnessReport MeasureFairness(InProcessCluster& cluster, Front& front,
                               const FairnessOptions& options);

// A row each, one with where a round's time went beside the crowd, then minimum, median and maximum
// of the ratios.
std::string ToString(const FairnessReport& report);

// A pair whose devices are their own: the target's pass takes 8 ms and 0.02 ms per row, the draft's
// a tenth or `draft_pass`. Neither uses the processor meanwhile. The models are tables
// (TableModel).
ClusterOptions DeviceLikePair(absl::Duration draft_pass = absl::Microseconds(800));

}  // namespace tandem::testing
