#include "common/tokenizer/chat_template.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_impl.h"

namespace tandem::tokenizer {
namespace {

// Empty where there is no such file.
absl::StatusOr<std::string> ReadIfThere(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::string();
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": could not be read"));
  return text;
}

}  // namespace

void ChatTemplate::Deleter::operator()(TandemChatTemplate* bridge) const {
  tandem_chat_template_free(bridge);
}

ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Load(const std::string& directory,
                                                                 const Tokenizer& tokenizer) {
  TANDEM_ASSIGN_OR_RETURN(const std::string config,
                          ReadIfThere(directory + "/tokenizer_config.json"));
  const std::string jinja_path = directory + "/chat_template.jinja";
  TANDEM_ASSIGN_OR_RETURN(const std::string jinja, ReadIfThere(jinja_path));
  absl::StatusOr<std::unique_ptr<ChatTemplate>> made = FromText(config, jinja, tokenizer);
  if (made.ok()) return made;
  const std::string path = jinja.empty() ? directory + "/tokenizer_config.json" : jinja_path;
  return absl::Status(made.status().code(), absl::StrCat(path, ": ", made.status().message()));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::FromText(
    std::string_view tokenizer_config, std::string_view jinja, const Tokenizer& tokenizer) {
  const BridgeCall bridge_call;
  TandemChatTemplate* bridge = nullptr;
  TandemBuffer error{};
  if (!tandem_chat_template_new(tokenizer.impl_->bridge.get(), Bytes(tokenizer_config),
                                tokenizer_config.size(), Bytes(jinja), jinja.size(), &bridge,
                                &error)) {
    return absl::InvalidArgumentError(TakeString(error));
  }
  if (bridge == nullptr) return std::unique_ptr<ChatTemplate>();
  return absl::WrapUnique(new ChatTemplate(tokenizer, bridge));
}

absl::StatusOr<ChatPrompt> ChatTemplate::Apply(const ChatInput& input) const {
  const BridgeCall bridge_call;
  const TandemChatInput given = {
      .messages = Bytes(input.messages),
      .messages_size = input.messages.size(),
      .tools = Bytes(input.tools),
      .tools_size = input.tools.size(),
      .arguments = Bytes(input.arguments),
      .arguments_size = input.arguments.size(),
      .now = absl::ToUnixSeconds(input.now),
      .add_generation_prompt = input.add_generation_prompt,
  };
  TandemBuffer text{};
  TandemIds ids{};
  TandemBuffer error{};
  if (!tandem_chat_template_apply(bridge_.get(), tokenizer_.impl_->bridge.get(), &given, &text,
                                  &ids, &error)) {
    return absl::InvalidArgumentError(TakeString(error));
  }
  return ChatPrompt{.text = TakeString(text), .ids = TakeIds(ids)};
}

}  // namespace tandem::tokenizer
