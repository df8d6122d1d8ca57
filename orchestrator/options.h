// The options of an orchestrator. flags.h fills in those that have flags.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/security/tls_options.h"
#include "orchestrator/accept/decide_function.h"
#include "orchestrator/openai/browser_guard.h"
#include "orchestrator/request/loop_options.h"
#include "orchestrator/request/request.h"

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

inline constexpr uint64_t kMaxUnreadBytes = uint64_t{1} << 40;

struct Options {
  // Each is host:port, and none comes twice. Every address that a host name resolves to is a peer
  // of its own (peers/directory.h). Requests go to the least loaded peers, and survive the loss of
  // any peer.
  std::vector<std::string> target_addresses;  // at least one
  std::vector<std::string> draft_addresses;   // empty: no draft, every round is plain

  absl::Duration resolve_every = absl::Seconds(5);  // time between lookups of a name; 100ms to 1h

  // How long a peer is left alone after a failure (peers/ejection.h).
  absl::Duration ejection_min = absl::Seconds(1);
  absl::Duration ejection_max = absl::Seconds(30);

  // Set one of the two. The shared tokenizer wins; the chat template is the directory's.
  std::string tokenizer_directory;  // it has a tokenizer.json
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  std::string chat_template_file;  // empty: the directory's own

  std::string client_id;  // 1 to 128 bytes; empty: host name, process id and a random number
  uint32_t max_active_requests = 256;    // 1 to 65536; further ones wait
  uint32_t max_waiting_requests = 1024;  // 0 to 16384; further ones get RESOURCE_EXHAUSTED
  // MiB that requests may take which have come and are not checked yet; 64 to 1048576. Further ones
  // get RESOURCE_EXHAUSTED, and so do those of a connection or address that has its share of it
  // (transport/byte_budget.h).
  uint32_t max_unchecked_mib = 256;
  // A request without a deadline waits this long for admission and then gets RESOURCE_EXHAUSTED.
  absl::Duration admission_patience = absl::Seconds(60);
  // Calls of Generate that are open at once, those of ended requests that wait for their readers
  // included; further ones get RESOURCE_EXHAUSTED. 0 to 2^20; 0: twice the requests that may run
  // and wait.
  uint32_t max_open_calls = 0;
  // Memory of replies that clients have not read, of all calls (stream/unread_replies.h); 1 MiB to
  // 1 TiB.
  uint64_t max_unread_bytes = uint64_t{256} << 20;
  // Output tokens of a request that sets no max_tokens, where there is room for so many. A text
  // reserves its room at a target when it begins. 0: all the room that the context leaves.
  uint32_t default_max_tokens = 1024;
  std::string length_policy = "auto";  // of requests that name none: auto, heuristic
  uint32_t prepare = 0;  // SpeculationOptions.prepare of requests that leave it to policy auto
  // Of requests that name none: a drafter, several separated by commas, or "auto"; empty: the draft
  // service's default. A name that no draft offers is refused with each such request.
  std::string drafter;
  std::vector<std::string> drafters() const;
  // Where the orchestrator chooses among several: it changes all the time (common_drafters.h). For
  // tests.
  bool always_tries_drafters = false;
  LengthMode length_mode() const {
    return length_policy == "heuristic" ? LengthMode::kHeuristic : LengthMode::kAuto;
  }
  LoopOptions loop;

  // What ListModels and HTTP call the model: 1 to 256 bytes; empty: the last part of
  // tokenizer_directory, or "tandem".
  std::string served_model_name;
  BrowserGuard browser_guard;  // of HTTP

  security::TlsClientOptions peer_tls;  // for channels to targets and drafts
  // The tokens that may call the service Generation (common/security/bearer_tokens.h). Empty:
  // everybody may.
  std::string token_file;

  telemetry::Tracer* tracer = nullptr;  // not owned; on the steady clock; null: no tracing

  // Used instead of the addresses, by the process that has all services and by tests.
  std::vector<std::shared_ptr<grpc::Channel>> target_channels;
  std::vector<std::shared_ptr<grpc::Channel>> draft_channels;
  DecideFunction decide;  // for negative controls in tests; empty: acceptance::Decide

  absl::Status Validate() const;  // INVALID_ARGUMENT names each bad value
  std::string ServedModelName() const;
  // The bound that max_open_calls stands for.
  size_t open_calls() const {
    const size_t requests = size_t{max_active_requests} + max_waiting_requests;
    return max_open_calls > 0 ? max_open_calls : 2 * requests;
  }
};

}  // namespace tandem::orchestrator
