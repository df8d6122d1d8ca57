#include "orchestrator/openai/chat_request.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "orchestrator/openai/fields.h"

namespace tandem::orchestrator {
namespace {

constexpr uint64_t kMaxAlternatives = 20;

bool IsWord(absl::string_view text) {
  return !text.empty() && text.size() <= 32 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

// A text, null, or parts of a text.
void CheckContent(Fields& fields) {
  const auto content = fields.Any("content");
  if (!content.has_value() || content->String().has_value()) return;
  if (!content->IsArray()) return fields.Fail("content", "is neither a text nor a list of parts");
  for (size_t i = 0; i < content->size(); ++i) {
    const base::JsonValue part = (*content)[i];
    if (part["type"].String() != "text" || !part["text"].String().has_value()) {
      return fields.Fail(absl::StrCat("content[", i, "]"), "must be a part of type \"text\"");
    }
  }
}

// A call's arguments are JSON in a text, which templates get as an object.
void CheckToolCalls(Fields& fields) {
  const auto calls = fields.Any("tool_calls");
  if (!calls.has_value()) return;
  if (!calls->IsArray()) return fields.Fail("tool_calls", "is not a list");
  for (size_t i = 0; i < calls->size(); ++i) {
    const auto arguments = (*calls)[i]["function"]["arguments"].String();
    const auto name = base::RepeatedJsonName(arguments.value_or(""));
    if (!name.has_value()) continue;
    return fields.Fail(absl::StrCat("tool_calls[", i, "].function.arguments"),
                       absl::StrCat("has '", name->substr(0, kMaxShownName),
                                    "' twice in one object: give it once"));
  }
}

void CheckMessage(const base::JsonValue& message, size_t index, Fields& fields) {
  Fields its(message, absl::StrCat("messages[", index, "]."));
  if (!its.Text("role").has_value()) its.Missing("role", "is missing");
  CheckContent(its);
  for (const char* name : {"name", "reasoning_content", "reasoning", "thinking", "tool_call_id"}) {
    its.Text(name);
  }
  CheckToolCalls(its);
  its.Refuse({"audio", "function_call", "refusal"});
  its.Inert({"annotations"});
  // Evaluation harnesses write it.
  if (its.Text("type").value_or("text") != "text") its.Fail("type", "is served only as \"text\"");
  // An answer that is sent back as it came has these besides.
  its.Inert({"token_ids"});
  fields.Keep(its.Finish());
}

void ReadMessages(Fields& fields, Conversation& to) {
  const auto messages = fields.Any("messages");
  if (!messages.has_value()) return fields.Missing("messages", "is missing");
  if (!messages->IsArray() || messages->size() == 0) {
    return fields.Fail("messages", "is not a list of messages, at least one");
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    if (!(*messages)[i].IsObject()) {
      return fields.Fail("messages", absl::StrCat("is not a list of objects: message ", i));
    }
    CheckMessage((*messages)[i], i, fields);
  }
  to.messages = messages->Dump();
}

// The template may get tools, but calls in the answer stay text: nobody parses them.
void ReadTools(Fields& fields, Conversation& to) {
  const auto choice = fields.Text("tool_choice");
  if (choice.has_value() && *choice != "none" && *choice != "auto") {
    fields.Fail("tool_choice", "is served only as \"none\" or \"auto\"");
  }
  const auto tools = fields.Any("tools");
  if (!tools.has_value() || (tools->IsArray() && tools->size() == 0)) return;
  if (choice != "none") {
    return fields.Fail("tools",
                       "is served only with tool_choice \"none\": the template gets them, and "
                       "calls in the answer are text, which is not parsed");
  }
  if (!tools->IsArray()) return fields.Fail("tools", "is not a list");
  to.tools = tools->Dump();
}

void ReadTemplate(Fields& fields, Conversation& to) {
  to.add_generation_prompt = fields.Bool("add_generation_prompt").value_or(true);
  if (const auto arguments = fields.Object("chat_template_kwargs")) {
    to.arguments = arguments->Dump();
  }
  fields.Only("continue_final_message", false);
  fields.Refuse({"chat_template", "documents", "mm_processor_kwargs"});
}

void ReadModalities(Fields& fields) {
  const auto modalities = fields.Any("modalities");
  if (!modalities.has_value()) return;
  if (modalities->size() != 1 || (*modalities)[0].String() != "text") {
    fields.Fail("modalities", "is served only as [\"text\"]");
  }
}

// A variable of the templates that know it, as vLLM has it. What the template has no use for, the
// answer names.
void ReadTemplateOption(Fields& fields, absl::string_view name, ChatRequest& to) {
  const auto value = fields.Text(name);
  if (!value.has_value()) return;
  if (!IsWord(*value)) return fields.Fail(name, "is not a word, such as low, medium or high");
  std::string& arguments = to.conversation.arguments;
  const auto others = base::JsonValue::Parse(arguments.empty() ? "{}" : arguments);
  if (others.ok() && others->Has(name)) {
    return fields.Fail(name, "is in chat_template_kwargs, too: leave one of them out");
  }
  to.conversation.options.emplace_back(name, *value);
}

void ReadLength(Fields& fields, CompletionRequest& to) {
  const auto old_limit = fields.Unsigned("max_tokens", 1, UINT32_MAX);
  const auto limit = fields.Unsigned("max_completion_tokens", 1, UINT32_MAX);
  if (old_limit.has_value() && limit.has_value() && *old_limit != *limit) {
    fields.Fail("max_tokens", "is not max_completion_tokens: leave one of them out");
  }
  if (limit.has_value()) to.names.max_tokens = "max_completion_tokens";
  // Absent: the orchestrator's default, or what there is room for.
  to.wire.set_max_tokens(static_cast<uint32_t>(limit.value_or(old_limit.value_or(0))));
}

void ReadLogprobs(Fields& fields, CompletionRequest& to) {
  to.logprobs = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Unsigned("top_logprobs", 0, kMaxAlternatives);
  if (top.value_or(0) > 0 && !to.logprobs) {
    fields.Fail("top_logprobs", "is there, but logprobs is not true");
  }
  if (to.logprobs) {
    to.wire.mutable_logprobs()->set_top(static_cast<uint32_t>(top.value_or(0)));
  } else if (to.wire.has_logprobs()) {
    fields.Fail("tandem.processed_logprobs", "is there, but logprobs is not true");
  }
}

}  // namespace

void ReadConversation(Fields& fields, Conversation& to) {
  ReadMessages(fields, to);
  ReadTemplate(fields, to);
}

absl::StatusOr<ChatRequest> ParseChat(const base::JsonValue& body) {
  ChatRequest request;
  request.completion.names.prompt = "messages";
  Fields fields(body);
  ReadConversation(fields, request.conversation);
  ReadTools(fields, request.conversation);
  ReadSharedFields(fields, request.completion);
  ReadLength(fields, request.completion);
  ReadLogprobs(fields, request.completion);
  ReadModalities(fields);
  for (const char* name : {"reasoning_effort", "verbosity"}) {
    ReadTemplateOption(fields, name, request);
  }
  fields.Only("echo", false);
  fields.Refuse({"functions", "function_call", "audio", "prediction", "web_search_options"});
  fields.Inert({"parallel_tool_calls"});
  TANDEM_RETURN_IF_ERROR(fields.Finish());
  return request;
}

}  // namespace tandem::orchestrator
