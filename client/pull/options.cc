#include "client/pull/options.h"

namespace tandem::client {

void PullOptions::AddTo(flags::FlagSet& flags) {
  flags.Argument("name", [this](absl::string_view text) {
    name = std::string(text);
    return absl::OkStatus();
  });
  flags.Group("What");
  flags.Switch("tokenizer-only", &tokenizer_only,
               "the tokenizer's files alone: all that an orchestrator needs");
}

}  // namespace tandem::client
