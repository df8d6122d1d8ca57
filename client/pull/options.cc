#include "client/pull/options.h"

namespace tandem::client {

void PullOptions::AddTo(flags::FlagSet& flags) {
  flags.Group("What");
  flags.Switch("tokenizer-only", &tokenizer_only,
               "the tokenizer's files alone: all that an orchestrator needs");
}

}  // namespace tandem::client
