#include "client/bench/conversations.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"

namespace tandem::client {
namespace {

using base::JsonValue;

constexpr int kMaxDepth = 64;

// An object of the file, and where it is: "chats.jsonl:3: messages[1].".
struct Place {
  JsonValue object;
  std::string path;

  absl::Status Wrong(absl::string_view name, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(path, name, " ", what));
  }
  // Null, as programs write a member that says nothing, is an absent one.
  bool Has(absl::string_view name) const { return !object[name].IsNull(); }

  absl::Status Text(absl::string_view name, std::string* to) const {
    if (!Has(name)) return absl::OkStatus();
    std::optional<std::string> text = object[name].String();
    if (!text.has_value()) return Wrong(name, "must be a string");
    *to = *std::move(text);
    return absl::OkStatus();
  }
  absl::Status Only(std::initializer_list<absl::string_view> known) const {
    for (const auto& [name, value] : object.Members()) {
      if (value.IsNull() || std::find(known.begin(), known.end(), name) != known.end()) continue;
      return Wrong(name, "is not supported in a message");
    }
    return absl::OkStatus();
  }
  // The objects of a list; none if there is no such member.
  absl::StatusOr<std::vector<Place>> List(absl::string_view name) const {
    std::vector<Place> list;
    if (!Has(name)) return list;
    if (!object[name].IsArray()) return Wrong(name, "must be a list");
    for (const JsonValue& element : object[name].Elements()) {
      const std::string its = absl::StrCat(name, "[", list.size(), "]");
      if (!element.IsObject()) return Wrong(its, "must be an object");
      list.push_back({element, absl::StrCat(path, its, ".")});
    }
    return list;
  }
};

absl::Status ReadContent(const Place& from, v1::ChatMessage& to) {
  const JsonValue content = from.object["content"];
  if (std::optional<std::string> text = content.String()) {
    to.set_content(*std::move(text));
    return absl::OkStatus();
  }
  if (content.IsNull()) {
    if (from.Has("tool_calls")) return absl::OkStatus();
    return from.Wrong("content", "is missing");
  }
  if (!content.IsArray()) return from.Wrong("content", "must be a string or a list of parts");
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Place> parts, from.List("content"));
  for (const Place& part : parts) {
    if (part.object["type"].String() != "text") {
      return part.Wrong("type", "must be \"text\": no other is supported");
    }
    if (!part.object["text"].String().has_value()) return part.Wrong("text", "must be a string");
    to.add_content_parts(*part.object["text"].String());
  }
  if (parts.empty()) return from.Wrong("content", "has no part");
  return absl::OkStatus();
}

absl::Status ReadToolCalls(const Place& from, v1::ChatMessage& to) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Place> calls, from.List("tool_calls"));
  for (const Place& call : calls) {
    v1::ToolCall& its = *to.add_tool_calls();
    TANDEM_RETURN_IF_ERROR(call.Text("id", its.mutable_id()));
    if (!call.object["function"].IsObject()) return call.Wrong("function", "must be an object");
    const Place function{call.object["function"], absl::StrCat(call.path, "function.")};
    if (!function.Has("name")) return function.Wrong("name", "is missing");
    TANDEM_RETURN_IF_ERROR(function.Text("name", its.mutable_name()));
    TANDEM_RETURN_IF_ERROR(function.Text("arguments", its.mutable_arguments()));
  }
  return absl::OkStatus();
}

absl::Status ReadMessage(const Place& from, v1::ChatMessage& to) {
  TANDEM_RETURN_IF_ERROR(
      from.Only({"role", "content", "name", "reasoning_content", "tool_call_id", "tool_calls"}));
  if (!from.Has("role")) return from.Wrong("role", "is missing");
  TANDEM_RETURN_IF_ERROR(from.Text("role", to.mutable_role()));
  TANDEM_RETURN_IF_ERROR(ReadContent(from, to));
  TANDEM_RETURN_IF_ERROR(from.Text("name", to.mutable_name()));
  TANDEM_RETURN_IF_ERROR(from.Text("reasoning_content", to.mutable_reasoning_content()));
  TANDEM_RETURN_IF_ERROR(from.Text("tool_call_id", to.mutable_tool_call_id()));
  return ReadToolCalls(from, to);
}

absl::StatusOr<v1::Conversation> ReadConversation(const Place& from) {
  v1::Conversation conversation;
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Place> messages, from.List("messages"));
  if (messages.empty()) return from.Wrong("messages", "must be a list of at least one message");
  for (const Place& message : messages) {
    TANDEM_RETURN_IF_ERROR(ReadMessage(message, *conversation.add_messages()));
  }
  if (conversation.messages().rbegin()->role() == "assistant") {
    return messages.back().Wrong(
        "role",
        "is assistant in the last message: leave out the answer that the model is to write");
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Place> tools, from.List("tools"));
  for (const Place& tool : tools) conversation.add_tools(tool.object.Dump());
  if (from.Has("chat_template_kwargs")) {
    const JsonValue arguments = from.object["chat_template_kwargs"];
    if (!arguments.IsObject()) return from.Wrong("chat_template_kwargs", "must be an object");
    conversation.set_template_arguments(arguments.Dump());
  }
  return conversation;
}

}  // namespace

absl::StatusOr<std::vector<v1::Conversation>> ParseConversations(absl::string_view text,
                                                                 absl::string_view file) {
  std::vector<v1::Conversation> conversations;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    absl::ConsumeSuffix(&line, "\r");
    if (line.empty()) continue;
    const Place place{{}, absl::StrCat(file, ":", number, ": ")};
    const absl::StatusOr<JsonValue> json = JsonValue::Parse(line, kMaxDepth);
    if (!json.ok())
      return place.Wrong("the line", absl::StrCat("is not JSON: ", json.status().message()));
    if (!json->IsObject()) return place.Wrong("the line", "must be an object with \"messages\"");
    TANDEM_ASSIGN_OR_RETURN(v1::Conversation conversation, ReadConversation({*json, place.path}));
    conversations.push_back(std::move(conversation));
  }
  if (conversations.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": has no conversation; one per line"));
  }
  return conversations;
}

}  // namespace tandem::client
