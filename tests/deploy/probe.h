// What a kubelet asks a pod, and what Prometheus does.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/support/scrape.h"

namespace tandem::testing {

// grpc.health.v1.Health/Check of `service` over a new connection, as a kubelet does: whether the
// answer is SERVING. `address`: HOST:PORT, numeric.
bool Probe(const std::string& address, const std::string& service, absl::Duration timeout);

// GET /metrics. UNAVAILABLE: nobody answers.
absl::StatusOr<Scrape> GetMetrics(const std::string& host, int port);

}  // namespace tandem::testing
