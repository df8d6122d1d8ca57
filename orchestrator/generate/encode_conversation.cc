#include "orchestrator/generate/encode_conversation.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/chat_template.h"
#include "orchestrator/generate/invalid.h"

namespace tandem::orchestrator {
namespace {

constexpr int kMaxDepth = 64;  // of nesting; schemas of tools have a few levels

absl::Status CheckNames(absl::string_view field, absl::string_view json) {
  const auto name = base::RepeatedJsonName(json);
  if (!name.has_value()) return absl::OkStatus();
  return Invalid(field, ": has \"", *name, "\" twice in one object");
}

absl::StatusOr<std::string> Object(const std::string& field, const std::string& json) {
  const absl::StatusOr<base::JsonValue> value = base::JsonValue::Parse(json, kMaxDepth);
  if (!value.ok()) return Invalid(field, ": ", value.status().message());
  if (!value->IsObject()) return Invalid(field, ": must be a JSON object");
  TANDEM_RETURN_IF_ERROR(CheckNames(field, json));
  return json;
}

absl::StatusOr<base::JsonText> Calls(const std::string& field, const v1::ChatMessage& message) {
  std::vector<base::JsonText> calls;
  for (const v1::ToolCall& call : message.tool_calls()) {
    const std::string path = absl::StrCat(field, ".tool_calls[", calls.size(), "].arguments");
    const std::string& given = call.arguments();
    TANDEM_ASSIGN_OR_RETURN(const std::string arguments,
                            Object(path, given.empty() ? "{}" : given));
    calls.emplace_back(base::JsonObject(
        {{"id", call.id()},
         {"type", "function"},
         {"function", base::JsonObject({{"name", call.name()}, {"arguments", arguments}})}}));
  }
  return base::JsonText(calls);
}

base::JsonText Parts(const v1::ChatMessage& message) {
  std::vector<base::JsonText> parts;
  for (const std::string& text : message.content_parts()) {
    parts.emplace_back(base::JsonObject({{"type", "text"}, {"text", text}}));
  }
  return base::JsonText(parts);
}

absl::StatusOr<std::string> Messages(const v1::Conversation& conversation) {
  std::vector<base::JsonText> messages;
  for (const v1::ChatMessage& message : conversation.messages()) {
    base::JsonObject object({{"role", message.role()}});
    if (message.has_content()) object.Set("content", message.content());
    if (!message.content_parts().empty()) {
      if (message.has_content()) {
        return Invalid("messages[", messages.size(), "].content_parts: content is there, too");
      }
      object.Set("content", Parts(message));
    }
    if (!message.name().empty()) object.Set("name", message.name());
    if (!message.reasoning_content().empty()) {
      object.Set("reasoning_content", message.reasoning_content());
    }
    if (!message.tool_calls().empty()) {
      TANDEM_ASSIGN_OR_RETURN(base::JsonText calls,
                              Calls(absl::StrCat("messages[", messages.size(), "]"), message));
      object.Set("tool_calls", std::move(calls));
    }
    if (!message.tool_call_id().empty()) object.Set("tool_call_id", message.tool_call_id());
    messages.emplace_back(object);
  }
  return base::JsonText(messages).text();
}

absl::StatusOr<std::string> Tools(const v1::Conversation& conversation) {
  std::string list;
  for (int i = 0; i < conversation.tools_size(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(const std::string tool,
                            Object(absl::StrCat("tools[", i, "]"), conversation.tools(i)));
    absl::StrAppend(&list, list.empty() ? "[" : ", ", tool);
  }
  return list.empty() ? list : list + "]";
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> EncodeConversation(
    const tokenizer::ChatTemplate& chat_template, const v1::Conversation& conversation) {
  TANDEM_ASSIGN_OR_RETURN(const std::string messages, Messages(conversation));
  TANDEM_ASSIGN_OR_RETURN(const std::string tools, Tools(conversation));
  tokenizer::ChatInput input;
  input.messages = messages;
  input.tools = tools;
  input.arguments = conversation.template_arguments();
  TANDEM_RETURN_IF_ERROR(CheckNames("template_arguments", conversation.template_arguments()));
  if (conversation.has_add_generation_prompt()) {
    input.add_generation_prompt = conversation.add_generation_prompt();
  }
  TANDEM_ASSIGN_OR_RETURN(tokenizer::ChatPrompt prompt, chat_template.Apply(input));
  return std::move(prompt.ids);
}

}  // namespace tandem::orchestrator
