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

// Our tokenizer, as far as a comparison needs it.
struct TokenizerIdentity {
  std::string content_id;
  std::vector<uint32_t> token_hashes;                  // by id
  std::function<std::string(uint32_t id)> token_text;  // for messages
};

// messages::CheckWelcome for revision and tokenizer, with the peer's name before it. For tokenizers the error
// names the first token that differs, too, which the peer is asked for; without its answer it names the
// two ids alone. `peer`: "target 10.0.0.1:50052". Thread-safe.
CheckWelcome MakePeerCheck(std::string peer, std::shared_ptr<const TokenizerIdentity> ours,
                           DescribePeer describe);

}  // namespace tandem::orchestrator
