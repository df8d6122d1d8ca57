// The log probabilities of a prompt's tokens, as they come in with its Steps: each once, in order, however
// often the prompt is sent again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {

// Not thread-safe: one request's strand.
class PromptLogprobsIntake {
 public:
  // `request` outlives this. One that wants none of its prompt asks for none.
  explicit PromptLogprobsIntake(const SampleRequest& request) : request_(request) {}

  // Whether a Step with the committed tokens from `keep` to `end` brings any that are not there yet.
  bool Wanted(uint32_t keep, uint32_t end) const;

  // What the answer to such a Step brought: one node a token, but for the first of all. Those that are
  // there already, and those of output, are dropped. INVALID_ARGUMENT says what is wrong with them;
  // nothing was taken then.
  absl::Status Take(uint32_t keep, uint32_t end, std::vector<sampling::NodeLogprobs> nodes,
                    uint32_t vocabulary_size);

  // What came since the last call; empty: nothing.
  std::optional<PromptLogprobs> Collected();

 private:
  const SampleRequest request_;
  uint32_t next_ =
      1;  // the position whose log probability is to come; nothing precedes the first token
  PromptLogprobs collected_;
};

}  // namespace tandem::orchestrator
