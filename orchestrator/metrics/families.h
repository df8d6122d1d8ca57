// The orchestrator's metrics as Prometheus wants them: names, help, labels.
//
// Thread safety: pure functions.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "orchestrator/metrics/totals.h"
#include "prometheus/metric_family.h"
#include "tandem/v1/tokens.pb.h"

namespace tandem::orchestrator {

// All series are there from the start, as 0.
std::vector<prometheus::MetricFamily> Families(const Totals& totals);

// tandem:peer_up. Addresses are none twice, as Options says.
prometheus::MetricFamily PeerFamily(absl::Span<const v1::Peer> peers);

}  // namespace tandem::orchestrator
