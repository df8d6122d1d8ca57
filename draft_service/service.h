// tandem.v1.Draft over any drafters.
//
//   auto model = …;                                      // shared by the drafters that use it
//   options.drafters = {ModelDrafterFactory(*model, {}), PromptLookupFactory()};
//   auto service = Service::Create(options);
//   builder.RegisterService((*service)->grpc_service());
//   …
//   (*service)->Drain();   // wait for active_sequences() == 0, End(), then shut the server down, then destroy the service, then the model
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "draft_service/options.h"

namespace grpc {
class Service;
}

namespace tandem::draft_service {

// Thread-safe.
class Service {
 public:
  // Starts the drafting thread, the only one that calls the drafters. INVALID_ARGUMENT names each
  // option that is out of its range.
  static absl::StatusOr<std::unique_ptr<Service>> Create(Options options);
  // After the server that it is registered with was shut down.
  virtual ~Service() = default;

  virtual grpc::Service* grpc_service() = 0;

  // From now on streams are handed over: those without an unanswered Advance end at once, the others with their
  // last Block, all with UNAVAILABLE; new ones are refused so. Returns at once.
  virtual void Drain() = 0;
  // After Drain: what is left ends so now, without a Block. Returns at once.
  virtual void End() = 0;

  virtual size_t active_sequences() const = 0;

  // How long the drafting thread has been busy with one Step and the messages before it; 0 while it
  // waits. For liveness.
  virtual absl::Duration busy_for() const = 0;

  // For /metrics, in Prometheus' text format.
  virtual std::string MetricsText() const = 0;
};

}  // namespace tandem::draft_service
