// The choices of /v1/completions.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/tokenizer/utf8.h"
#include "orchestrator/openai/choice_form.h"

namespace tandem::orchestrator {
namespace {

using base::JsonObject;
using base::JsonText;

constexpr float kMinusInfinity = -9999;

// The token's text; of part of a character, its bytes as OpenAI writes them.
std::string Shown(const std::string& bytes) {
  std::string text;
  const size_t rest = tokenizer::AppendText(bytes, tokenizer::Replacement::kEachByte, text);
  if (rest == 0 && text == bytes) return text;
  std::string escaped = "bytes:";
  for (const char c : bytes) absl::StrAppendFormat(&escaped, "\\x%02x", c & 0xff);
  return escaped;
}

class Text final : public ChoiceForm {
 public:
  explicit Text(TokenBytes token_bytes) : token_bytes_(std::move(token_bytes)) {}

  absl::string_view id_prefix() const override { return "cmpl-"; }
  absl::string_view whole_object() const override { return "text_completion"; }
  absl::string_view stream_object() const override { return "text_completion"; }
  std::vector<JsonObject::Member> FirstEvent() const override { return {}; }
  std::vector<JsonObject::Member> Part(absl::string_view text) const override {
    return {{"text", text}};
  }
  std::vector<JsonObject::Member> Whole(absl::string_view text) const override {
    return {{"text", text}};
  }

  JsonText Logprobs(const v1::Delta& tokens, absl::Span<const size_t> offsets) const override {
    std::vector<JsonText> texts;
    std::vector<JsonText> logprobs;
    std::vector<JsonText> tops;
    for (int i = 0; i < tokens.token_ids_size() && i < tokens.logprobs_size(); ++i) {
      const std::string own = Shown(token_bytes_(tokens.token_ids(i)));
      texts.emplace_back(own);
      logprobs.push_back(LogprobJson(tokens.logprobs(i)));
      if (std::isnan(tokens.logprobs(i))) {
        tops.emplace_back(nullptr);
        continue;
      }
      JsonObject top;
      if (i < tokens.top_logprobs_size()) {
        for (const v1::TokenLogprob& one : tokens.top_logprobs(i).tokens()) {
          top.Set(Shown(token_bytes_(one.token())), LogprobJson(one.logprob()));
        }
      }
      top.Set(own, logprobs.back());
      tops.emplace_back(top);
    }
    return JsonObject({{"tokens", texts},
                       {"token_logprobs", logprobs},
                       {"top_logprobs", tops},
                       {"text_offset", JsonText::Array(offsets)}});
  }

 private:
  const TokenBytes token_bytes_;
};

}  // namespace

std::unique_ptr<ChoiceForm> TextForm(TokenBytes token_bytes) {
  return std::make_unique<Text>(std::move(token_bytes));
}

JsonText LogprobJson(float logprob) {
  if (std::isnan(logprob)) return nullptr;
  return static_cast<double>(std::isfinite(logprob) ? logprob : kMinusInfinity);
}

}  // namespace tandem::orchestrator
