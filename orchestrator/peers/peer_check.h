// Checks that a peer speaks our protocol and has our tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "orchestrator/peers/connector.h"
#include "tandem/internal/v1/tokens.pb.h"

namespace tandem::orchestrator {

// What a comparison needs to know about our tokenizer.
struct TokenizerIdentity {
  std::string content_id;
  std::vector<uint32_t> token_hashes;                  // index: id
  std::function<std::string(uint32_t id)> token_text;  // for messages
};

// Makes a check of revision and tokenizer by messages::CheckWelcome. Its errors begin with `peer`,
// such as "target 10.0.0.1:50052". If tokenizers differ, the peer is asked for the first token that
// differs, and the error names it; if the peer does not answer, the error names the two ids only.
// Thread-safe.
CheckWelcome MakePeerCheck(std::string peer, std::shared_ptr<const TokenizerIdentity> ours,
                           DescribePeer describe);

}  // namespace tandem::orchestrator
