// All three services in the test's own process, over TCP on loopback or without sockets, with hooks
// for what is wrong on purpose.
//
//   ClusterOptions options = DemoOptions();
//   options.judge = …;                       // a planted fault
//   InProcessCluster cluster(std::move(options));
//   Reply reply = Send(cluster.channel(), request);
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/concurrency/system_clock.h"
#include "common/telemetry/tracing.h"
#include "common/transport/server_host.h"
#include "draft_service/drafters/drafter.h"
#include "draft_service/drafters/model_drafter.h"
#include "draft_service/serving/service.h"
#include "model/language_model.h"
#include "orchestrator/accept/decide_function.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/wiring.h"
#include "target_service/engine/judging.h"
#include "target_service/options.h"
#include "target_service/service.h"
#include "tests/integration/models.h"
#include "tests/support/spans.h"

namespace grpc {
class Channel;
}

namespace tandem::testing {

struct ClusterOptions {
  std::unique_ptr<model::LanguageModel> target_model;
  std::unique_ptr<model::LanguageModel> draft_model;  // null: no drafter `model`
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  // What the drafters corpus-unigram, corpus-bigram and mixed have counted; empty: some tokens.
  std::vector<uint32_t> corpus;

  draft_service::ModelDrafterOptions model_drafter;  // of the drafter `model`
  draft_service::DrafterFactory instead_of_model;    // with a fault, say; `make` empty: none

  uint32_t max_sequences = 256;                              // of the target
  absl::Duration linger = target_service::Options().linger;  // of the target
  uint32_t pass_rows = 0;               // of the target (target_service::Options)
  uint32_t max_active_requests = 4096;  // of the orchestrator
  uint32_t max_waiting_requests = 1024;
  uint32_t default_max_tokens = 1024;
  target_service::JudgeFunction judge;  // empty: the right one
  orchestrator::DecideFunction decide;  // empty: the right one
  orchestrator::LoopOptions loop;
  bool always_tries_drafters = false;

  // The part of the traces that begin in this process that is sampled, 0 to 1; absent: there is no
  // tracing.
  std::optional<double> trace_ratio;

  // Client, orchestrator and peers use channels without sockets: the same messages, for less
  // processor time. There are no proxies then.
  bool without_sockets = false;

  // Where the orchestrator connects instead of the services themselves (a proxy that the test
  // owns); called with a service's address. Empty: directly.
  std::function<std::string(const std::string& address)> target_proxy;
  std::function<std::string(const std::string& address)> draft_proxy;
};

ClusterOptions DemoOptions();  // demo/target and demo/draft
// The same, whose rounds wait for their blocks even on a busy machine: for tests that count what
// drafts did.
ClusterOptions PatientDemoOptions();
ClusterOptions PairOptions(const std::string& target_directory, const std::string& draft_directory);

// CHECKs that it starts. Ready when constructed: the orchestrator has seen its target.
class InProcessCluster {
 public:
  explicit InProcessCluster(ClusterOptions options);
  ~InProcessCluster();

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  const tokenizer::Tokenizer& tokenizer() const { return *options_.tokenizer; }
  std::shared_ptr<const tokenizer::Tokenizer> shared_tokenizer() const {
    return options_.tokenizer;
  }
  int port() const { return front_host_->port(); }
  int target_port() const { return target_host_->port(); }
  int draft_port() const { return draft_host_->port(); }

  orchestrator::Orchestrator& orchestrator() { return *orchestrator_; }
  void DrainTarget() { target_->Drain(); }
  // Rows of all passes of the target so far.
  uint64_t target_rows() const;

  size_t target_sequences() const { return target_->active_sequences(); }
  size_t draft_sequences() const { return draft_->active_sequences(); }
  // What the services, as tandem-orchestrator, tandem-draft and tandem-target, ended; with
  // trace_ratio.
  SpanRecorder& spans() { return spans_; }

  // Waits until neither service holds a sequence; false after `patience`.
  bool AllFreed(absl::Duration patience = absl::Seconds(20)) const;

 private:
  telemetry::Tracer* Trace(const std::string& service);

  ClusterOptions options_;
  const concurrency::SteadyClock clock_;
  SpanRecorder spans_;
  std::vector<std::unique_ptr<telemetry::Tracing>> tracing_;  // one per service
  std::unique_ptr<draft_service::Service> draft_;
  std::unique_ptr<target_service::Service> target_;
  std::unique_ptr<transport::ServerHost> draft_host_;
  std::unique_ptr<transport::ServerHost> target_host_;
  std::unique_ptr<orchestrator::Orchestrator> orchestrator_;
  std::unique_ptr<transport::ServerHost> front_host_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace tandem::testing
