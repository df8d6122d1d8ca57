// What a target service is told at its start. flags.h fills in what flags say.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/telemetry/tracer.h"

namespace tandem::target_service {

struct Options {
  uint32_t max_sequences = 64;     // held at once, over all streams; 1 to 65536
  uint32_t max_draft_tokens = 16;  // in a block; 1 to 64, and below the engine's max_rows

  // Draft tokens in a tree, 0 to speculation::kMaxTreeNodes; 0: none is served. None is either
  // where the engine has none, and fewer where its passes have no room for so many.
  uint32_t max_nodes = 32;

  // Rows that prompts may take of a pass while rounds wait; at least 1. More: a prompt is read
  // sooner; fewer: the rounds of others are held up less.
  uint32_t prefill_rows = 128;

  // Rows that a pass aims at; 0: as many as the measured cost curve makes worth while
  // (passes/pass_policy.h). A single Step may take more.
  uint32_t pass_rows = 0;

  // At the start passes of 1, 2, 4, … rows are measured for about this long, 0 to 1 min; 0: the
  // curve comes of the passes that are asked for alone, and until then passes take all that waits.
  absl::Duration measure = absl::Milliseconds(500);

  // How long the sequences of a broken stream are kept for their client to come back, 0 to 1 h.
  // They give way before that where their slots or their room is wanted.
  absl::Duration linger = absl::Seconds(2);

  std::string tokenizer_id;  // content id; empty: clients are not checked for it
  std::string instance_id;   // of this process; empty: made of time and chance
  std::string model_name;    // for metrics and spans; empty: they do not say

  // For Describe: the hash of a token's bytes (Tokenizer::TokenHash). Thread-safe. Empty: no
  // hashes.
  std::function<uint32_t(uint32_t token)> token_hash;

  // Told to a client that found no slot; more where many wait.
  absl::Duration retry_after = absl::Milliseconds(50);

  const concurrency::Clock* clock = nullptr;  // not owned; null: the steady clock
  telemetry::Tracer* tracer = nullptr;        // not owned; null: nothing is traced

  absl::Status Validate() const;  // INVALID_ARGUMENT naming each bad value
};

}  // namespace tandem::target_service
