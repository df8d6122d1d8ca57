// The choices of /v1/chat/completions.
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/openai/choice_form.h"

namespace tandem::orchestrator {
namespace {

using base::JsonObject;
using base::JsonText;

// The text as it can be shown; its bytes beside it, for it may be part of a character.
void AddToken(const std::string& bytes, float logprob, JsonObject& to) {
  std::vector<JsonText> numbers;
  numbers.reserve(bytes.size());
  for (const char c : bytes) numbers.emplace_back(static_cast<int>(static_cast<unsigned char>(c)));
  to.Set("token", bytes);
  to.Set("logprob", LogprobJson(logprob));
  to.Set("bytes", numbers);
}

class Chat final : public ChoiceForm {
 public:
  explicit Chat(TokenBytes token_bytes) : token_bytes_(std::move(token_bytes)) {}

  absl::string_view id_prefix() const override { return "chatcmpl-"; }
  absl::string_view whole_object() const override { return "chat.completion"; }
  absl::string_view stream_object() const override { return "chat.completion.chunk"; }
  std::vector<JsonObject::Member> FirstEvent() const override {
    return {{"delta", JsonObject({{"role", "assistant"}, {"content", ""}})}};
  }
  std::vector<JsonObject::Member> Part(absl::string_view text) const override {
    JsonObject delta;
    if (!text.empty()) delta.Set("content", text);
    return {{"delta", delta}};
  }
  std::vector<JsonObject::Member> Whole(absl::string_view text) const override {
    return {
        {"message", JsonObject({{"role", "assistant"}, {"content", text}, {"refusal", nullptr}})}};
  }

  JsonText Logprobs(const v1::Delta& tokens, absl::Span<const size_t> /*offsets*/) const override {
    std::vector<JsonText> content;
    for (int i = 0; i < tokens.token_ids_size() && i < tokens.logprobs_size(); ++i) {
      JsonObject token;
      AddToken(token_bytes_(tokens.token_ids(i)), tokens.logprobs(i), token);
      std::vector<JsonText> alternatives;
      if (i < tokens.top_logprobs_size()) {
        const auto add = [&](uint32_t id, float logprob) {
          JsonObject alternative;
          AddToken(token_bytes_(id), logprob, alternative);
          alternatives.emplace_back(alternative);
        };
        bool has_own = false;
        for (const v1::TokenLogprob& one : tokens.top_logprobs(i).tokens()) {
          add(one.token(), one.logprob());
          has_own = has_own || one.token() == tokens.token_ids(i);
        }
        if (!has_own) add(tokens.token_ids(i), tokens.logprobs(i));
      }
      token.Set("top_logprobs", alternatives);
      content.emplace_back(token);
    }
    return JsonObject({{"content", content}});
  }

 private:
  const TokenBytes token_bytes_;
};

}  // namespace

std::unique_ptr<ChoiceForm> ChatForm(TokenBytes token_bytes) {
  return std::make_unique<Chat>(std::move(token_bytes));
}

}  // namespace tandem::orchestrator
