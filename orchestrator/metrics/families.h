// The orchestrator's metrics in Prometheus' form: names, help texts, labels.
//
// Thread safety: pure functions.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "orchestrator/metrics/totals.h"
#include "orchestrator/stream/unread_replies.h"
#include "prometheus/metric_family.h"
#include "tandem/v1/tokens.pb.h"

namespace tandem::orchestrator {

// All series exist from the start, with the value 0.
std::vector<prometheus::MetricFamily> Families(const Totals& totals);

// What clients have not read.
std::vector<prometheus::MetricFamily> UnreadFamilies(const UnreadCounts& counts);

// The metric tandem:peer_up. No address comes twice, as Options requires.
prometheus::MetricFamily PeerFamily(absl::Span<const v1::Peer> peers);

}  // namespace tandem::orchestrator
