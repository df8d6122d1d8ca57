// A service with one thread that computes, as the process around it sees it.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace grpc {
class Service;
}

namespace tandem::serving {

// Thread-safe.
class Service {
 public:
  // After the server that it is registered with was shut down.
  virtual ~Service() = default;

  virtual grpc::Service* grpc_service() = 0;

  // From now on nothing new is let in. Returns at once.
  virtual void Drain() = 0;
  // After Drain: what is left ends with UNAVAILABLE, after the pass that runs. Returns at once.
  virtual void End() = 0;

  virtual size_t active_sequences() const = 0;
  // Those of them that somebody is connected for: a drain waits for them.
  virtual size_t open_sequences() const { return active_sequences(); }

  // Not OK: what it computes with is lost, and its streams have ended. The process should end.
  virtual absl::Status failure() const = 0;

  // How long the service's thread has computed without a pause; 0 while it waits. For liveness.
  virtual absl::Duration busy_for() const = 0;

  // As of now, in Prometheus' text format (common/telemetry/metrics_text.h).
  virtual std::string MetricsText() const = 0;
};

}  // namespace tandem::serving
