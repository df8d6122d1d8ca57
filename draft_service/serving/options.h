// What a draft service is told at its start. flags.h fills in what flags say.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/concurrency/clock.h"
#include "common/telemetry/tracer.h"
#include "draft_service/drafters/drafter.h"

namespace tandem::draft_service {

struct Options {
  std::vector<DrafterFactory> drafters;  // at least one; distinct names
  std::string default_drafter;           // for an empty Open.drafter; empty: the first of them

  uint32_t vocabulary_size = 0;  // ids below it are tokens; at least 1
  uint32_t context_length = 0;   // for Welcome; 0 = no limit (a drafter without a model)
  std::string model_id;          // for Welcome; empty: no model
  std::string numerics_id;
  std::string tokenizer_id;  // content id; empty: clients are not checked for it
  std::string instance_id;   // of this process; empty: made of time and chance
  std::string model_name;    // for metrics and spans; empty: no model, or they do not say

  // For Describe: the hash of a token's bytes (Tokenizer::TokenHash). Thread-safe. Empty: no
  // hashes.
  std::function<uint32_t(uint32_t token)> token_hash;

  uint32_t max_draft_tokens = 16;                   // in a block, in a tree on one path; 1 to 64
  uint32_t max_nodes = speculation::kMaxTreeNodes;  // in a tree, 0 to so many; 0: none is made
  uint32_t max_sequences = 256;                     // open at once, over all streams; 1 to 65536
  // The most rows of one pass of a model, which all sequences at work share; 0 to 65536. 0: as many
  // as pay on this device (pass_builder.h). Never more than the model takes.
  int pass_rows = 0;

  const concurrency::Clock* clock = nullptr;  // not owned; null: the steady clock
  telemetry::Tracer* tracer = nullptr;        // not owned; null: nothing is traced

  absl::Status Validate() const;  // INVALID_ARGUMENT naming each bad value
};

}  // namespace tandem::draft_service
