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
// Bounds: a template of 1 MiB, 500 nested operators in an expression, a text of 8 MiB, 4 million
// steps of the engine and items that it visits, 100 macros and 200 lists deep.
// docs/adr/2026-11-28-chat-template-engine.md lists where the engine differs from Jinja2.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
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
  // and whatever else the template knows: "tool_calls", "name", "reasoning_content". As in
  // transformers, a member that is null is left out. The arguments of a tool call may be a text of
  // JSON, or empty; templates see the object. Parts become one text, a line each, where the
  // template does not take parts, and a developer becomes the system where it does not know that
  // role. A message that the template leaves out is refused, but for an assistant's text.
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
  // Reads `file`, or where that is empty `directory`/chat_template.jinja and
  // `directory`/additional_chat_templates/NAME.jinja, or where there are none "chat_template" of
  // tokenizer_config.json: a text, or a list of named ones. "default" serves conversations, and
  // "tool_use", where there is one, those with tools. Null where the directory has no template.
  // INVALID_ARGUMENT or NOT_FOUND names the file and what is wrong. `tokenizer` is that of the same
  // directory; it must outlive the template.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Load(const std::string& directory,
                                                            const std::string& file,
                                                            const Tokenizer& tokenizer);
  // From the texts of tokenizer_config.json and chat_template.jinja, each possibly empty. Null
  // where neither has a template.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> FromText(std::string_view tokenizer_config,
                                                                std::string_view jinja,
                                                                const Tokenizer& tokenizer);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // Whether it has this word, as the name of a variable that it may read.
  bool Mentions(std::string_view word) const { return source_.find(word) != std::string::npos; }

  // INVALID_ARGUMENT, for people: a field by its path ("messages[1].role: ..."), what the template
  // raised, or what it could not do. UNIMPLEMENTED: the template uses what the engine lacks. At
  // most a few milliseconds for a conversation of ordinary size.
  absl::StatusOr<ChatPrompt> Apply(const ChatInput& input) const;

  // What the templates use and the engine lacks, as `filter "xmlattr", method "encode"`; empty:
  // nothing. Conversations fail only where a rendering comes to it.
  const std::string& missing() const { return missing_; }

 private:
  struct Deleter {
    void operator()(TandemChatTemplate* bridge) const;
  };
  ChatTemplate(const Tokenizer& tokenizer, TandemChatTemplate* bridge, std::string missing,
               std::string_view source)
      : tokenizer_(tokenizer), missing_(std::move(missing)), bridge_(bridge), source_(source) {}
  // `templates`: JSON as "chat_template" of a tokenizer_config.json, or empty.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> Make(std::string_view tokenizer_config,
                                                            std::string_view templates,
                                                            const Tokenizer& tokenizer);

  const Tokenizer& tokenizer_;
  const std::string missing_;
  std::unique_ptr<TandemChatTemplate, Deleter> bridge_;
  const std::string source_;  // the text that it is in, as JSON
};

}  // namespace tandem::tokenizer
