// The options of `tandem tokenize`.
//
// Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/common/orchestrator_flags.h"
#include "client/common/text_source.h"
#include "common/flags/flag_set.h"

namespace tandem::client {

struct TokenizeOptions {
  OrchestratorFlags orchestrator;
  TextSource text;
  std::vector<uint32_t> ids;  // in place of a text; empty: not given
  bool add_special_tokens = true;
  bool parse_special_tokens = true;
  std::string format = "text";  // text, ids, json

  void AddTo(flags::FlagSet& flags);
  absl::Status Validate() const;  // INVALID_ARGUMENT names the flag
};

}  // namespace tandem::client
