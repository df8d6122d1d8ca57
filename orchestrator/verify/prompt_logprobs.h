// Collects the log probabilities of a prompt's tokens, which come with its Steps. Each is passed on
// once, in order, however often the prompt is sent again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

// Not thread-safe: used on the request's strand.
class PromptLogprobsIntake {
 public:
  // `request` outlives this object. If it wants no log probabilities of its prompt, Wanted is
  // always false.
  explicit PromptLogprobsIntake(const SampleRequest& request) : request_(request) {}

  // Whether a Step with the committed tokens from `keep` to `end` brings any that are missing.
  bool Wanted(uint32_t keep, uint32_t end) const;

  // Takes the nodes of the answer to such a Step: one for each token, except the first of all.
  // Nodes that are there already and nodes of output tokens are dropped. INVALID_ARGUMENT says what
  // is wrong with them; then nothing was taken.
  absl::Status Add(uint32_t keep, uint32_t end, std::vector<sampling::NodeLogprobs> nodes,
                   uint32_t vocabulary_size);

  // What came since the last call; absent if nothing did.
  std::optional<PromptLogprobs> Collected();

 private:
  const SampleRequest request_;
  // The position whose log probability is to come; nothing precedes the first token.
  uint32_t next_ = 1;
  PromptLogprobs collected_;
};

}  // namespace tandem::orchestrator
