// The orchestrator's metrics in Prometheus' form: names, help texts, labels.
//
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "orchestrator/metrics/totals.h"
#include "orchestrator/peers/refusal_counts.h"
#include "orchestrator/stream/unread_replies.h"
#include "prometheus/metric_family.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::orchestrator {

// All series exist from the start, with the value 0.
std::vector<prometheus::MetricFamily> Families(const Totals& totals);

// What clients have not read.
std::vector<prometheus::MetricFamily> UnreadFamilies(const UnreadCounts& counts);

// The metrics tandem:peer_up and tandem:peer_refused_total of `peers`. An address that comes twice
// in a role counts once, the first time.
std::vector<prometheus::MetricFamily> PeerFamilies(absl::Span<const v1::Peer> peers,
                                                   const std::map<RefusalKey, uint64_t>& refusals);

}  // namespace tandem::orchestrator
