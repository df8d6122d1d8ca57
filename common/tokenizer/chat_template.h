// Conversations to token ids, by the chat template of a Hugging Face directory.
//
// The text is what apply_chat_template of transformers makes, with the same settings of Jinja:
// trim_blocks, lstrip_blocks, loop controls, tojson, raise_exception, strftime_now in local time,
// Python's methods of strings. The ids are those of the whole text, without tokens that the
// tokenizer would add around it: a template writes the beginning-of-text token itself.
//
// What the caller gives never becomes a special token, whatever it says and however the template
// cuts and joins it; only the template's own text does. Where no text of the caller's has a special
// token's name in it, the ids are those of transformers. "Special" is what tokenizer.json marks so.
// docs/adr/2026-11-23-chat-templates.md says how.
//
// Bounds: a template of 1 MiB, a text of 8 MiB, 4 million steps of the engine, 100 macros deep.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

struct TandemChatTemplate;

namespace tandem::tokenizer {

class Tokenizer;

// The views are borrowed for a call.
struct ChatInput {
  // JSON, a list of objects as OpenAI's API has them: "role" (system, developer, user, assistant,
  // tool or function), "content" (a text, null, or a list of parts {"type": "text", "text": ...}),
  // and whatever else the template knows: "tool_calls", "name", "reasoning_content". The arguments
  // of a tool call may be a text of JSON; templates see the object. Parts become one text, a line
  // each, where the template does not take parts.
  std::string_view messages;
  std::string_view tools;      // JSON, a list; empty = none
  std::string_view arguments;  // JSON, an object: more variables, as enable_thinking; empty = none
  bool add_generation_prompt = true;  // the text ends where the assistant's answer begins
  absl::Time now = absl::Now();       // for templates that print the date
};

struct ChatPrompt {
  std::string text;  // what was encoded
  std::vector<uint32_t> ids;
};

// Thread safety: const methods from any thread.
class ChatTemplate {
 public:
  // Reads `directory`/chat_template.jinja, or "chat_template" of tokenizer_config.json: a text, or
  // a list of named ones ("default", and "tool_use" for requests with tools). Null where the
  // directory has neither. INVALID_ARGUMENT names the file and what is wrong. `tokenizer` is that
  // of the same directory; it must outlive the template.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Load(const std::string& directory,
                                                            const Tokenizer& tokenizer);
  // From the texts of the two files, each possibly empty. Null where neither has a template.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> FromText(std::string_view tokenizer_config,
                                                                std::string_view jinja,
                                                                const Tokenizer& tokenizer);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // INVALID_ARGUMENT, for people: a field by its path ("messages[1].role: ..."), what the template
  // raised, or what it could not do. At most a few milliseconds for a conversation of ordinary
  // size.
  absl::StatusOr<ChatPrompt> Apply(const ChatInput& input) const;

 private:
  struct Deleter {
    void operator()(TandemChatTemplate* bridge) const;
  };
  ChatTemplate(const Tokenizer& tokenizer, TandemChatTemplate* bridge)
      : tokenizer_(tokenizer), bridge_(bridge) {}

  const Tokenizer& tokenizer_;
  std::unique_ptr<TandemChatTemplate, Deleter> bridge_;
};

}  // namespace tandem::tokenizer
