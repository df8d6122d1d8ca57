// A simulated pair of services on a simulated clock: sequences that decode in a closed loop, a
// target that batches what waits, a draft that batches too, and networks. It gives tokens per
// second under a length policy. Times are those of the setting with a little jitter; acceptance is
// drawn from a generator with a fixed seed. So a run is repeatable.
//
// The target takes all that waits when it gets free, and holds a pass up for those that came back
// quickly before, as target_service/passes/gathering.h does. The draft takes all that waits, too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "orchestrator/draft/length/policy.h"

namespace tandem::orchestrator {

struct SimulatedSetting {
  std::vector<std::pair<double, double>> pass;  // rows -> seconds; straight lines between
  double alpha = 0.7;                           // chance of each draft token
  double draft_token = 1e-3;                    // seconds of a draft token, of one sequence alone
  double draft_round_trip = 0;                  // seconds
  double target_round_trip = 1e-4;              // seconds
  uint32_t sequences = 1;
  uint32_t streams = 1;       // orchestrators that share the sequences; at most as many
  bool shared_cores = false;  // draft and target alternate
  // What a pass takes longer, as a share, if the draft has computed since the last one. Above 0 the
  // policies see a curve of measured passes instead of the setting's own.
  double contention = 0;
  uint32_t prompt = 0;       // rows of a sequence's first pass; above 0 all texts are as long
  double noise = 0;          // standard deviation of the logarithm of the machine's speed
  double noise_lasts = 0.1;  // seconds until the speed is another one, on average
};

// A new policy of a sequence of this orchestrator (0 to streams - 1) that begins; and of one that
// ends nothing is heard any more.
using MakeLength = std::function<std::unique_ptr<LengthPolicy>(uint32_t stream)>;

// Tokens per second in the last `rounds` rounds of all sequences together, after `warm_up` rounds.
double SimulatedSpeed(const SimulatedSetting& setting, const MakeLength& make, uint64_t warm_up,
                      uint64_t rounds, uint64_t seed);

// The time of a pass by its rows.
double PassSeconds(const SimulatedSetting& setting, double rows);

}  // namespace tandem::orchestrator
