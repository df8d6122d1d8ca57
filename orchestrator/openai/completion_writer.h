// The generator's replies as an answer of OpenAI's API: events of a stream, or one object. An
// answer is to one prompt or to several, each with a request at the generator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "orchestrator/openai/choice_form.h"
#include "orchestrator/openai/text_offsets.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

struct WriterPrompt {
  std::string echo;  // stands before the text of each choice; empty: nothing does
  // Of an echo with log probabilities, else empty: its tokens, and where they begin in it.
  std::vector<uint32_t> ids;
  std::vector<size_t> offsets;
};

struct WriterOptions {
  std::string model;    // the name that answers have
  int64_t created = 0;  // seconds since 1970
  std::vector<WriterPrompt> prompts = {{}};
  uint32_t samples = 1;  // of each prompt
  bool include_usage = false;
  bool return_token_ids = false;
  bool logprobs = false;
  bool echo_alone = false;               // the one token that follows each prompt is left out
  bool text_runs = false;                // choices have `text_runs`
  std::optional<uint32_t> draft_tokens;  // a fixed number a round; absent: it adapts
  std::vector<std::string> ignored;      // fields that had no use: the answer names them
  // Makes what text_offset is counted with, for a choice of this prompt; empty: the form has none.
  std::function<std::unique_ptr<Detokenizer>(uint32_t prompt)> detokenizer;
};

// Not thread-safe. The replies of a prompt come in the order in which the generator sent them.
// Choice `i` is sample `i % samples` of prompt `i / samples`, as OpenAI has it.
class CompletionWriter {
 public:
  CompletionWriter(WriterOptions options, std::unique_ptr<ChoiceForm> form);

  // A stream: the events that follow from the reply, as text of server-sent events; may be empty.
  std::string Events(const v1::GenerateReply& reply, uint32_t prompt = 0);
  // An event with an error, which ends a stream in place of the rest.
  static std::string ErrorEvent(const std::string& error_json);

  // An object: keeps what it will say.
  void Keep(const v1::GenerateReply& reply, uint32_t prompt = 0);
  size_t kept_bytes() const { return kept_bytes_; }  // of memory, from above
  std::string Whole() const;

  // Empty until Started has come.
  const std::string& request_id() const { return started_.request_id(); }

 private:
  // Tokens with their log probabilities, and where they begin in the choice's text.
  struct Tokens {
    v1::Delta delta;  // without its text
    std::vector<size_t> offsets;
  };
  struct Choice {
    std::string text;  // of an object
    Tokens tokens;     // of an object; of a stream those that begin behind what was sent
    size_t sent = 0;   // characters of a stream
    std::optional<TextOffsets> offsets;
    v1::SampleEnd end;
  };
  using Members = std::vector<base::JsonObject::Member>;

  base::JsonObject Head(absl::string_view object) const;
  std::string Event(const base::JsonObject& object) const;
  std::string ChoiceEvent(size_t index, Members members, const v1::SampleEnd* end);
  void AddTokens(const Tokens& tokens, Members& to) const;
  base::JsonText LogprobsJson(const Tokens& tokens) const;

  void Start(const v1::Started& started, uint32_t prompt);
  void Append(const v1::Delta& delta, Choice& choice) const;
  static Tokens TakeFront(Tokens& from, int count);
  Tokens FirstOfPrompt(uint32_t prompt) const;
  Tokens OfPrompt(const v1::PromptLogprobs& logprobs, uint32_t prompt) const;
  void End(const v1::Last& last, uint32_t prompt);

  std::string FirstEvents(uint32_t prompt);
  std::string PromptEvents(const v1::PromptLogprobs& logprobs, uint32_t prompt);
  std::string DeltaEvent(const v1::Delta& delta, size_t index);
  std::string LastEvents(uint32_t prompt);
  base::JsonObject OursJson() const;
  void AddRecord(base::JsonObject& to) const;

  size_t FirstChoice(uint32_t prompt) const { return size_t{prompt} * options_.samples; }
  size_t IndexOf(uint32_t prompt, uint32_t sample) const;

  const WriterOptions options_;
  const std::unique_ptr<ChoiceForm> form_;
  v1::Started started_;  // of the prompt that began first
  bool told_ = false;    // a stream's first event has `tandem`
  std::vector<Choice> choices_;
  std::vector<Tokens> prompt_tokens_;  // of an object, by prompt
  v1::Last sum_;                       // of the prompts that have ended
  size_t ended_ = 0;
  size_t kept_bytes_ = 0;
};

}  // namespace tandem::orchestrator
