// What an orchestrator is told at its start. Flags are copied into this by main.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/acceptance/rule.h"
#include "common/rpc/tls_options.h"
#include "common/telemetry/tracer.h"
#include "common/tokenizer/tokenizer.h"

namespace grpc {
class Channel;
}

namespace tandem::orchestrator {

// How one request's loop behaves. All times are measured on a steady clock.
struct LoopOptions {
  // The longest that a round waits for its block. The wait adapts downwards: it is never longer
  // than four of the target's measured rounds, but for the floor below, which keeps a busy
  // machine's hiccups from looking like a slow draft. Time alone decides, never a token's value.
  absl::Duration draft_wait = absl::Milliseconds(200);
  absl::Duration draft_wait_floor = absl::Milliseconds(20);

  // A draft that owes an answer for longer than this, and than eight of its usual ones, is given up for
  // another one. Rounds do not wait for it meanwhile. It has more time for a long prefix.
  absl::Duration draft_silence = absl::Seconds(2);

  // The least and the most that the back-off before reconnecting takes (draft, and replays to a
  // target that answers with faults of its own).
  absl::Duration backoff_least = absl::Milliseconds(20);
  absl::Duration backoff_most = absl::Seconds(2);

  // A Step unanswered for max(watchdog_least, watchdog_factor x expected) means that its stream is
  // dead.
  absl::Duration watchdog_least = absl::Milliseconds(500);
  double watchdog_factor = 8;

  // The target may be gone, or answer with faults, for this long; then the request ends:
  // UNAVAILABLE.
  absl::Duration target_patience = absl::Seconds(30);
  // A request without a deadline waits this long for a slot; then RESOURCE_EXHAUSTED.
  absl::Duration slot_patience = absl::Seconds(60);

  // A reader who is more than this many tokens of a text behind pauses its generation. After `close_after` of
  // pause the request's sequences are closed (and refilled later), after `abort_after` it ends:
  // ABORTED.
  uint32_t most_undelivered_tokens = 1024;
  absl::Duration close_after = absl::Seconds(5);
  absl::Duration abort_after = absl::Seconds(60);

  // Tokens of prefix in one Step (at most 5 bytes each on the wire, and a message is at most 1
  // MiB).
  uint32_t most_prefix_tokens = 128 * 1024;

  absl::Status Validate() const;  // INVALID_ARGUMENT naming each bad value
};

// As acceptance::Decide.
using DecideFunction = std::function<acceptance::Decision(
    acceptance::Rule rule, absl::Span<const acceptance::Entry> entries,
    absl::Span<const double> uniforms)>;

struct Options {
  // host:port each, none twice. Every address that a host name resolves to is a peer of its own
  // (peers/directory.h). Requests go to the least loaded ones, and survive the loss of any.
  std::vector<std::string> target_addresses;  // at least one
  std::vector<std::string> draft_addresses;   // empty: no draft, every round is plain

  absl::Duration resolve_every = absl::Seconds(5);  // names are looked up again; 100ms to 1h

  // How long a peer that failed is left alone (peers/ejection.h).
  absl::Duration ejection_least = absl::Seconds(1);
  absl::Duration ejection_most = absl::Seconds(30);

  // One of the two. The shared one wins.
  std::string tokenizer_directory;  // with a tokenizer.json
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;

  std::string
      client_id;  // 1 to 128 bytes; empty: made of host name, process id and a random number
  uint32_t most_active_requests = 256;    // 1 to 65536; those beyond them wait
  uint32_t most_waiting_requests = 1024;  // 0 to 16384; beyond them RESOURCE_EXHAUSTED
  // A request without a deadline waits this long to be admitted; then RESOURCE_EXHAUSTED.
  absl::Duration admission_patience = absl::Seconds(60);
  LoopOptions loop;

  rpc::TlsClientOptions peer_tls;  // towards targets and drafts
  // Who may call Generate and Describe (common/rpc/bearer_tokens.h); empty: everybody.
  std::string token_file;

  telemetry::Tracer* tracer = nullptr;  // not owned, on the steady clock; null: nothing is traced

  // For one process with all services, and for tests: used in place of the addresses.
  std::vector<std::shared_ptr<grpc::Channel>> target_channels;
  std::vector<std::shared_ptr<grpc::Channel>> draft_channels;
  DecideFunction decide;  // for negative controls in tests; empty: acceptance::Decide

  absl::Status Validate() const;  // INVALID_ARGUMENT naming each bad value
};

}  // namespace tandem::orchestrator
