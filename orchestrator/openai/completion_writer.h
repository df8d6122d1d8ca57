// The generator's replies as an answer of OpenAI's API: events of a stream, or one object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "orchestrator/openai/choice_form.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

struct WriterOptions {
  std::string model;    // the name that answers have
  int64_t created = 0;  // seconds since 1970
  uint32_t samples = 1;
  bool include_usage = false;
  bool return_token_ids = false;
  bool logprobs = false;
  bool text_runs = false;                // choices have `text_runs`
  std::string echo;                      // stands before the text of each choice
  std::optional<uint32_t> draft_tokens;  // a fixed number a round; absent: it adapts
};

// Not thread-safe. The replies come in the order in which the generator sent them.
class CompletionWriter {
 public:
  CompletionWriter(WriterOptions options, std::unique_ptr<ChoiceForm> form);

  // A stream: the events that follow from the reply, as text of server-sent events; may be empty.
  std::string Events(const v1::GenerateReply& reply);
  // An event with an error, which ends a stream in place of the rest.
  static std::string ErrorEvent(const std::string& error_json);

  // An object: keeps what it will say.
  void Keep(const v1::GenerateReply& reply);
  size_t kept_bytes() const { return kept_bytes_; }  // of memory, from above
  std::string Whole() const;

  // Empty until Started has come.
  const std::string& request_id() const { return started_.request_id(); }

 private:
  struct Choice {
    std::string text;
    v1::Delta tokens;   // without its text
    size_t offset = 0;  // characters that were sent, for log probabilities
  };

  base::JsonObject Head(absl::string_view object) const;
  std::string Event(const base::JsonObject& object) const;
  std::string ChoiceEvent(uint32_t index, std::vector<base::JsonObject::Member> members,
                          const v1::Delta* tokens, const v1::SampleEnd* end);
  void AddTokens(const v1::Delta& tokens, absl::string_view text, size_t& offset,
                 base::JsonObject& choice) const;
  std::string FirstEvents();
  std::string DeltaEvent(const v1::Delta& delta);
  std::string LastEvents(const v1::Last& last);
  void AddRecord(const v1::Last& last, base::JsonObject& to) const;

  const WriterOptions options_;
  const std::unique_ptr<ChoiceForm> form_;
  v1::Started started_;
  bool told_ = false;  // a stream's first event has `tandem`
  std::vector<Choice> choices_;
  v1::Last last_;
  size_t kept_bytes_ = 0;
};

}  // namespace tandem::orchestrator
