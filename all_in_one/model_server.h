// All three services in one process: what `tandem-model serve` runs. They send each other the
// messages of gRPC that three machines would, through channels inside the process, without sockets.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "all_in_one/serve_options.h"
#include "common/concurrency/system_clock.h"
#include "common/http/port.h"
#include "common/telemetry/tracing.h"
#include "common/tokenizer/tokenizer.h"
#include "common/transport/server_host.h"
#include "draft_service/serving/service.h"
#include "model/language_model.h"
#include "orchestrator/wiring.h"
#include "target_service/engine/engine.h"
#include "target_service/service.h"

namespace tandem::all_in_one {

// Used by one thread.
class ModelServer {
 public:
  // Loads both models, reports its progress on standard error, and begins to serve. It returns when
  // the first request would be served. FAILED_PRECONDITION means that the tokenizers differ; the
  // message names both ids and the first token that differs.
  //
  // Each service traces under its own name, as the OTEL_* variables say
  // (common/telemetry/tracing.h). INVALID_ARGUMENT names a bad variable. UNAVAILABLE, before
  // anything is loaded, names an address that it cannot listen on.
  static absl::StatusOr<std::unique_ptr<ModelServer>> Start(ServeOptions options);
  // Drains without grace.
  ~ModelServer();

  int port() const { return front_host_->port(); }

  // How long a device thread has been at its present pass. Of draft and target, the longer time
  // counts.
  absl::Duration busy_for() const { return std::max(draft_->busy_for(), target_->busy_for()); }
  // Not OK: a model's device is lost, so this process should end.
  absl::Status failure() const {
    const absl::Status target = target_->failure();
    return target.ok() ? draft_->failure() : target;
  }
  void SetAlive(bool alive) { front_host_->SetAlive(alive); }

  // Takes no new request. Running requests may finish within `grace`.
  void Drain(absl::Duration grace);

 private:
  ModelServer() = default;
  absl::Status StartTracing();
  absl::Status Load(const ServeOptions& options);
  absl::Status StartDraft(const ServeOptions& options);
  absl::Status StartTarget(const ServeOptions& options);
  absl::Status StartFront(const ServeOptions& options);

  // A service's name, and the tracing that exports its spans.
  struct Traced {
    std::string instance_id;
    std::unique_ptr<telemetry::Tracing> tracing;
  };

  // A member is used by those below it, so they are destroyed from the front to the models.
  const concurrency::SteadyClock clock_{};
  Traced draft_tracing_;
  Traced target_tracing_;
  Traced front_tracing_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::unique_ptr<model::LanguageModel> draft_model_;      // may be null
  std::unique_ptr<target_service::Engine> target_engine_;  // until the target service has it
  draft_service::TextDrafters text_drafters_;              // until the draft service has them
  std::unique_ptr<draft_service::Service> draft_;
  std::unique_ptr<target_service::Service> target_;
  std::unique_ptr<transport::ServerHost> draft_host_;
  std::unique_ptr<transport::ServerHost> target_host_;
  std::unique_ptr<orchestrator::Orchestrator> orchestrator_;
  std::unique_ptr<transport::ServerHost> front_host_;
  std::unique_ptr<http::Port> http_;  // null: none is wanted
};

}  // namespace tandem::all_in_one
