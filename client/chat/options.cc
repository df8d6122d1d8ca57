#include "client/chat/options.h"

#include "client/common/prompt.h"
#include "common/base/status_macros.h"

namespace tandem::client {

void ChatOptions::AddTo(flags::FlagSet& flags) {
  orchestrator.AddTo(flags);
  flags.Group("Conversation");
  flags.Text("system", &system, "system message before the first message");
  flags.Text("template-arguments", &template_arguments,
             "a JSON object: more variables of the model's chat template, as "
             "{\"enable_thinking\": false}");
  flags.Number("max-tokens", &max_tokens, 0, UINT32_MAX,
               "maximum tokens of an answer; 0 = the orchestrator's --default-max-tokens");
  flags.Letter('n', "max-tokens");
  flags.Text("cache-scope", &cache_scope,
             "conversations of one scope share the KV cache of common prefixes; at most 64 bytes. "
             "Default: a scope of its own");
  flags.Duration("timeout", &timeout, absl::ZeroDuration(), absl::InfiniteDuration(),
                 "maximum time of an answer; 0 = unlimited");
  request.AddTo(flags);
  flags.Group("Output");
  flags.Switch("quiet", &quiet, "print answers only, without hints and the record of speculation");
  flags.Choice("color", &color, {"auto", "always", "never"},
               "color accepted draft tokens (auto: on a terminal, unless NO_COLOR is set)");
}

absl::Status ChatOptions::Validate() const {
  TANDEM_RETURN_IF_ERROR(orchestrator.Validate());
  if (!system.empty()) TANDEM_RETURN_IF_ERROR(CheckPrompt(system, "--system"));
  if (!template_arguments.empty()) {
    TANDEM_RETURN_IF_ERROR(CheckPrompt(template_arguments, "--template-arguments"));
  }
  return request.Validate();
}

}  // namespace tandem::client
