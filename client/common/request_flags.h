// The flags of a request's options (common/messages/request_options.h): `generate`, `bench` and
// `chat` share them.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/flags/flag_set.h"
#include "common/messages/request_options.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::client {

using messages::kMaxDraftTokens;

struct RequestFlags {
  // What was given. The rest is the default of the service or of the model.
  v1::GenerateRequest request;

  // Those of sampling, rule and draft.
  void AddTo(flags::FlagSet& flags);
  // One more, in the group that was begun last.
  void Add(const messages::RequestOption& option, flags::FlagSet& flags);
  // Checks flags against each other; names the flag.
  absl::Status Validate() const;
  // Adds what was given.
  void Apply(v1::GenerateRequest& to) const;

  // --draft-tokens; absent: auto.
  std::optional<uint32_t> draft_tokens() const;
};

// An error about a request's options, by the names of flags.
std::string InFlagsWords(absl::string_view message);

}  // namespace tandem::client
