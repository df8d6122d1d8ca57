// tandem.v1.Target over any engine.
//
//   auto engine = CpuEngine::Create({}, std::move(model));
//   auto service = Service::Create(options, *std::move(engine));
//   builder.RegisterService((*service)->grpc_service());
//   …
//   (*service)->Drain();   // wait for active_sequences() == 0, End(), then shut the server down, then destroy the service
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "target_service/engine/engine.h"
#include "target_service/options.h"

namespace grpc {
class Service;
}

namespace tandem::target_service {

// Thread-safe.
class Service {
 public:
  // Measures what passes cost (options.measure) and starts the device's thread. INVALID_ARGUMENT
  // names each option that is out of its range.
  static absl::StatusOr<std::unique_ptr<Service>> Create(Options options,
                                                         std::unique_ptr<Engine> engine);
  // After the server that it is registered with was shut down.
  virtual ~Service() = default;

  virtual grpc::Service* grpc_service() = 0;

  // From now on new sequences are answered DRAINING; those that are open go on. Returns at once.
  virtual void Drain() = 0;
  // After Drain: every stream ends with UNAVAILABLE, after the pass that runs. Returns at once.
  virtual void End() = 0;

  virtual size_t active_sequences() const = 0;  // with those that linger
  virtual size_t lingering_sequences() const = 0;

  // How long the device's thread has been busy with one pass; 0 while it waits. For liveness.
  virtual absl::Duration busy_for() const = 0;

  // As of now, in Prometheus' text format (target_metrics.h, common/telemetry/metrics_text.h).
  virtual std::string MetricsText() const = 0;
};

}  // namespace tandem::target_service
