#include "client/tokenize/options.h"

#include "common/base/status_macros.h"

namespace tandem::client {
namespace {

constexpr size_t kMaxIds = 1 << 20;

}  // namespace

void TokenizeOptions::AddTo(flags::FlagSet& flags) {
  orchestrator.AddTo(flags);
  flags.Group("What");
  text.AddTo(flags, "the text");
  flags.NumberList("ids", &ids, kMaxIds, "ID[,ID...]: print the text of these tokens");
  flags.Switch("add-special-tokens", &add_special_tokens,
               "add the tokens that the tokenizer puts around a text (=false: none)");
  flags.Switch("parse-special-tokens", &parse_special_tokens,
               "turn names of special tokens in the text into those tokens (=false: treat them as "
               "text)");
  flags.Group("Output");
  flags.Choice("format", &format, {"text", "ids", "json"},
               "text: one line per token, or the text of --ids; ids: 1,2,3; json: one object");
}

absl::Status TokenizeOptions::Validate() const {
  TANDEM_RETURN_IF_ERROR(orchestrator.Validate());
  if (ids.empty()) return text.Validate("the text");
  if (text.given()) return absl::InvalidArgumentError("a text and --ids: give only one of them");
  if (format == "ids") return flags::BadFlag("format", format, "--ids asks for text");
  return absl::OkStatus();
}

}  // namespace tandem::client
