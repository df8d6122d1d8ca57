#include "client/chat/options.h"

#include "client/common/prompt.h"
#include "common/base/status_macros.h"

namespace tandem::client {

void ChatOptions::AddTo(flags::FlagSet& flags) {
  orchestrator.AddTo(flags);
  flags.Group("Conversation");
  flags.Text("system", &system, "what the model is told before the first message");
  flags.Text("template-arguments", &template_arguments,
             "a JSON object: more variables of the model's chat template, as "
             "{\"enable_thinking\": false}");
  flags.Number("max-tokens", &max_tokens, 0, UINT32_MAX,
               "of an answer; 0 = the orchestrator's default (--default-max-tokens)");
  flags.Letter('n', "max-tokens");
  flags.Text("cache-scope", &cache_scope,
             "texts of one scope that begin alike share what the target computed of their "
             "beginning; at most 64 bytes; the conversation has one of its own when absent");
  flags.Duration("timeout", &timeout, absl::ZeroDuration(), absl::InfiniteDuration(),
                 "the longest that an answer may take; 0 = unlimited");
  request.AddTo(flags);
  flags.Group("Output");
  flags.Switch("quiet", &quiet, "answers alone: nothing of commands, and of how speculation went");
  flags.Choice("color", &color, {"auto", "always", "never"},
               "of accepted draft tokens (auto: on a terminal, unless NO_COLOR is set)");
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
