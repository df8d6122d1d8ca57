#include "common/tokenizer/chat_template.h"

#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/read_file.h"
#include "common/base/status_macros.h"
#include "common/gguf/model_texts.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_impl.h"
#include "common/tokenizer/utf8.h"

namespace tandem::tokenizer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxFile = 64 << 20;  // a tokenizer_config.json may list many tokens

// Of a template's file, for "chat_template".
absl::StatusOr<base::JsonText> Jinja(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const std::string text, base::ReadRegularFile(path, kMaxFile));
  std::string checked;
  const size_t rest = AppendText(text, Replacement::kEachByte, checked);
  if (rest > 0 || checked != text) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not UTF-8"));
  }
  return base::JsonText(text);
}

// JSON for "chat_template"; empty where the directory has no templates in files.
absl::StatusOr<std::string> FileTemplates(const std::string& directory) {
  std::map<std::string, std::string> paths;
  std::error_code error;
  const std::string one = directory + "/chat_template.jinja";
  if (fs::exists(one, error)) paths["default"] = one;
  for (const auto& entry :
       fs::directory_iterator(directory + "/additional_chat_templates", error)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".jinja") paths[path.stem().string()] = path.string();
  }
  std::vector<base::JsonText> templates;
  for (const auto& [name, path] : paths) {
    TANDEM_ASSIGN_OR_RETURN(base::JsonText jinja, Jinja(path));
    templates.emplace_back(base::JsonObject({{"name", name}, {"template", std::move(jinja)}}));
  }
  return templates.empty() ? std::string() : base::JsonText(templates).text();
}

}  // namespace

void ChatTemplate::Deleter::operator()(TandemChatTemplate* bridge) const {
  tandem_chat_template_free(bridge);
}

ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Load(const std::string& directory,
                                                                 const std::string& file,
                                                                 const Tokenizer& tokenizer) {
  const std::string config_path = directory + "/tokenizer_config.json";
  TANDEM_ASSIGN_OR_RETURN(const std::string config,
                          gguf::ReadModelTextIfThere(config_path, kMaxFile));
  std::string templates;
  if (file.empty()) {
    TANDEM_ASSIGN_OR_RETURN(templates, FileTemplates(directory));
  } else {
    TANDEM_ASSIGN_OR_RETURN(const base::JsonText jinja, Jinja(file));
    templates = jinja.text();
  }
  absl::StatusOr<std::unique_ptr<ChatTemplate>> made = Make(config, templates, tokenizer);
  if (made.ok()) return made;
  const std::string& path = !file.empty() ? file : templates.empty() ? config_path : directory;
  return absl::Status(made.status().code(), absl::StrCat(path, ": ", made.status().message()));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::FromText(
    std::string_view tokenizer_config, std::string_view jinja, const Tokenizer& tokenizer) {
  std::string templates;
  if (!jinja.empty()) templates = base::JsonText(std::string(jinja)).text();
  return Make(tokenizer_config, templates, tokenizer);
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::Make(std::string_view tokenizer_config,
                                                                 std::string_view templates,
                                                                 const Tokenizer& tokenizer) {
  const BridgeCall bridge_call;
  TandemChatTemplate* bridge = nullptr;
  TandemBuffer missing{};
  TandemBuffer error{};
  if (!tandem_chat_template_new(tokenizer.impl_->bridge.get(), Bytes(tokenizer_config),
                                tokenizer_config.size(), Bytes(templates), templates.size(),
                                &bridge, &missing, &error)) {
    return absl::InvalidArgumentError(TakeString(error));
  }
  if (bridge == nullptr) return std::unique_ptr<ChatTemplate>();
  return absl::WrapUnique(new ChatTemplate(tokenizer, bridge, TakeString(missing),
                                           templates.empty() ? tokenizer_config : templates));
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
  bool of_template = false;
  TandemBuffer error{};
  if (!tandem_chat_template_apply(bridge_.get(), tokenizer_.impl_->bridge.get(), &given, &text,
                                  &ids, &of_template, &error)) {
    const std::string message = TakeString(error);
    return of_template ? absl::UnimplementedError(message) : absl::InvalidArgumentError(message);
  }
  return ChatPrompt{.text = TakeString(text), .ids = TakeIds(ids)};
}

}  // namespace tandem::tokenizer
