// What an orchestrator is told at its start. flags.h fills in what flags say.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/security/tls_options.h"
#include "orchestrator/accept/decide_function.h"
#include "orchestrator/request/loop_options.h"

namespace grpc {
class Channel;
}

namespace tandem::telemetry {
class Tracer;
}

namespace tandem::tokenizer {
class Tokenizer;
}

namespace tandem::orchestrator {

struct Options {
  // host:port each, none twice. Every address that a host name resolves to is a peer of its own
  // (peers/directory.h). Requests go to the least loaded ones, and survive the loss of any.
  std::vector<std::string> target_addresses;  // at least one
  std::vector<std::string> draft_addresses;   // empty: no draft, every round is plain

  absl::Duration resolve_every = absl::Seconds(5);  // names are looked up again; 100ms to 1h

  // How long a peer that failed is left alone (peers/ejection.h).
  absl::Duration ejection_min = absl::Seconds(1);
  absl::Duration ejection_max = absl::Seconds(30);

  // One of the two. The shared one wins.
  std::string tokenizer_directory;  // with a tokenizer.json
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;

  std::string
      client_id;  // 1 to 128 bytes; empty: made of host name, process id and a random number
  uint32_t max_active_requests = 256;    // 1 to 65536; those beyond them wait
  uint32_t max_waiting_requests = 1024;  // 0 to 16384; beyond them RESOURCE_EXHAUSTED
  // A request without a deadline waits this long to be admitted; then RESOURCE_EXHAUSTED.
  absl::Duration admission_patience = absl::Seconds(60);
  LoopOptions loop;

  security::TlsClientOptions peer_tls;  // towards targets and drafts
  // Who may call Generate and Describe (common/security/bearer_tokens.h); empty: everybody.
  std::string token_file;

  telemetry::Tracer* tracer = nullptr;  // not owned, on the steady clock; null: nothing is traced

  // For one process with all services, and for tests: used in place of the addresses.
  std::vector<std::shared_ptr<grpc::Channel>> target_channels;
  std::vector<std::shared_ptr<grpc::Channel>> draft_channels;
  DecideFunction decide;  // for negative controls in tests; empty: acceptance::Decide

  absl::Status Validate() const;  // INVALID_ARGUMENT naming each bad value
};

}  // namespace tandem::orchestrator
