// The whole orchestrator. wiring.cc is the only place that knows how its parts fit together.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace grpc {
class Service;
}

namespace tandem::orchestrator {

struct Options;

// For Options::client_id: host, process and a random number.
std::string NewClientId();

// Thread-safe.
//
//   auto orchestrator = Orchestrator::Create(options);
//   builder.RegisterService((*orchestrator)->grpc_service());
//   …
//   (*orchestrator)->Drain(absl::Seconds(10));   // then shut the server down, then destroy this
class Orchestrator {
 public:
  // Checks the options, loads the tokenizer, begins to connect to the peers (which need not be
  // there yet). INVALID_ARGUMENT and NOT_FOUND name what is wrong.
  static absl::StatusOr<std::unique_ptr<Orchestrator>> Create(Options options);
  virtual ~Orchestrator() = default;

  // tandem.v1.Generation. Lives as long as this object, which must outlive the server.
  virtual grpc::Service* grpc_service() = 0;

  // OK once a compatible target was seen and is connected, and until Drain. Else why not:
  // UNAVAILABLE, or FAILED_PRECONDITION when the target's tokenizer differs. A draft is never
  // needed.
  virtual absl::Status Ready() const = 0;

  // Requests that run, and those that wait to be admitted.
  virtual size_t active_requests() const = 0;
  virtual size_t waiting_requests() const = 0;
  // Calls of Generate whose end is not with their clients yet: these, those that were refused just now, and
  // those that wait for a slow reader.
  virtual size_t open_calls() const = 0;

  // What GET /metrics answers, in Prometheus' text format (metrics/families.cc has names and meanings).
  virtual std::string MetricsText() const = 0;

  // From now on new requests are refused, and those that wait: UNAVAILABLE. Running ones go on. Returns at once.
  virtual void Refuse() = 0;

  // Refuses new requests, lets running ones finish for `grace`, then ends the rest with
  // UNAVAILABLE. Returns when none is left. Idempotent.
  virtual void Drain(absl::Duration grace) = 0;
};

}  // namespace tandem::orchestrator
