// The whole orchestrator. Only wiring.cc knows how its parts fit together.
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

namespace tandem::http {
class Handler;
}

namespace tandem::orchestrator {

struct Options;

// For transport::ServerHostOptions: four times what is taken, so that nearly whatever is too long
// is refused with INVALID_ARGUMENT and the limit.
inline constexpr size_t kMaxGrpcMessageBytes = size_t{32} << 20;

// For Options::client_id: host name, process id and a random number.
std::string NewClientId();

// Thread-safe.
//
//   auto orchestrator = Orchestrator::Create(options);
//   builder.RegisterService((*orchestrator)->grpc_service());
//   …
//   (*orchestrator)->Drain(absl::Seconds(10));   // then shut the server down, then destroy this
class Orchestrator {
 public:
  // Checks the options, loads the tokenizer and begins to connect to the peers, which need not be
  // there yet. INVALID_ARGUMENT and NOT_FOUND name what is wrong.
  static absl::StatusOr<std::unique_ptr<Orchestrator>> Create(Options options);
  virtual ~Orchestrator() = default;

  // tandem.v1.Generation. It lives as long as this object, which must outlive the server.
  virtual grpc::Service* grpc_service() = 0;

  // OpenAI's API (openai/openai_service.h), for a port that speaks HTTP. It lives as long as this
  // object, which must outlive the port.
  virtual http::Handler& http_handler() = 0;

  // OK from when a compatible target is connected until Drain. Else the error says why not:
  // UNAVAILABLE, or FAILED_PRECONDITION if the target's tokenizer differs. A draft is never needed.
  virtual absl::Status Ready() const = 0;

  // The number of requests that run or wait for admission.
  virtual size_t active_requests() const = 0;
  virtual size_t waiting_requests() const = 0;
  // The number of calls of Generate, and of requests over HTTP, whose end has not reached their
  // clients yet: active requests, requests that were refused just now, and those whose reader is
  // slow.
  virtual size_t open_calls() const = 0;

  // The answer to GET /metrics, in Prometheus' text format (metrics/families.cc has names and
  // meanings).
  virtual std::string MetricsText() const = 0;

  // Refuses new requests and those that wait, with UNAVAILABLE. Running requests go on. Returns at
  // once.
  virtual void Refuse() = 0;

  // Refuses new requests, gives running ones `grace`, and then ends the rest with UNAVAILABLE.
  // Returns when none is left. Idempotent.
  virtual void Drain(absl::Duration grace) = 0;
};

}  // namespace tandem::orchestrator
