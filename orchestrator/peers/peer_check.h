// Whether a peer speaks our protocol and our tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "orchestrator/peers/connector.h"
#include "tandem/v1/tokens.pb.h"

namespace tandem::orchestrator {

inline constexpr uint32_t kProtocolRevision = 1;

// Our tokenizer, as far as a comparison needs it.
struct TokenizerIdentity {
  std::string content_id;
  uint32_t vocabulary_size = 0;
  std::function<uint32_t(uint32_t id)> token_hash;
  std::function<std::string(uint32_t id)> token_text;  // for messages
};

// OK when revision and tokenizer are ours. Else FAILED_PRECONDITION with both values; for
// tokenizers it names the first token that differs, which the peer is asked for. `peer`:
// "target 10.0.0.1:50052". Thread-safe.
CheckWelcome MakePeerCheck(std::string peer, std::shared_ptr<const TokenizerIdentity> ours,
                           DescribePeer describe);

}  // namespace tandem::orchestrator
