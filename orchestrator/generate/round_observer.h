// Who wants to see the loop's stages (tracing, metrics). No-ops here, so that an observer overrides
// what it needs and the loop calls without asking.
//
// Calls come on the request's strand, in the order of the round: begun, drafted, submitted,
// verified.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "orchestrator/generate/request.h"

namespace tandem::orchestrator {

class RoundObserver {
 public:
  virtual ~RoundObserver() = default;

  virtual void OnRoundBegun(uint32_t /*committed*/) {}
  // A block came, or the round goes on without one.
  virtual void OnDrafted(uint32_t /*candidates*/, std::optional<PlainCause> /*cause*/) {}
  virtual void OnSubmitted(uint64_t /*round*/) {}
  virtual void OnReplay(absl::string_view /*reason*/) {}
  virtual void OnDecided(uint32_t /*accepted*/, bool /*rejected*/, uint32_t /*tokens_committed*/) {}
};

}  // namespace tandem::orchestrator
