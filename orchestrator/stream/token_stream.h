// Turns committed tokens into the text that the client sees. It decides where the text ends, joins
// bytes to characters, and counts how far the reader is behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "orchestrator/request/request.h"
#include "orchestrator/stream/stop_matcher.h"
#include "orchestrator/stream/text_runs.h"
#include "orchestrator/stream/unread_replies.h"

namespace tandem::orchestrator {

// Same contract as tokenizer::IncrementalDetokenizer.
class Detokenizer {
 public:
  virtual ~Detokenizer() = default;
  virtual absl::StatusOr<std::string> Feed(uint32_t id) = 0;
  virtual std::string Finish() = 0;
};

struct TextDelta {
  std::string text;  // whole UTF-8 characters
  std::vector<uint32_t> ids;
  std::vector<TokenLogprobs> logprobs;  // one for each id, or empty
  std::vector<TextRun> runs;            // of all of the text, if the request wants them; or empty
};

class DeltaSink {
 public:
  virtual ~DeltaSink() = default;
  virtual void Send(TextDelta delta) = 0;
  virtual void SendPrompt(PromptLogprobs prompt) = 0;  // before the first delta
};

// Not thread-safe: used on the request's strand.
//
// A text ends with the first of these:
//
// - an end token: its id is reported, and it has no text;
// - a stop string: the text ends before it, and the ids go up to and including the token that
//   completed it. A match that only the end of the text completes counts, too;
// - max_tokens, which is at most what the context has room for.
//
// A stop string that is complete within the first min_tokens does not end the text. One that begins
// there and is completed later does. (The target bans end tokens there.) Text may come later than
// its id; at the end all text has come.
class TokenStream {
 public:
  // The most messages that wait to be written. Further deltas are joined into the next one.
  static constexpr size_t kMaxQueuedMessages = 16;

  // `unread` is the call's, which all its samples share; it outlives this object. The owner of the
  // sink adds to it what the sink gets, and this object what waits here to be joined.
  TokenStream(const GenerationRequest& request, std::unique_ptr<Detokenizer> detokenizer,
              DeltaSink& sink, uint32_t max_undelivered_tokens, UnreadCall& unread);

  // Takes the output that the client has already. Its text is not sent again, except the part that
  // was held back when it stopped. INVALID_ARGUMENT means that the output ends the text.
  absl::Status Resume(absl::Span<const uint32_t> output_prefix);

  struct Appended {
    uint32_t used = 0;  // tokens that belong to the text; fewer than given only at its end
    std::optional<Finish> finish;  // set if the text has ended
  };
  // Takes the next tokens and sends, in one delta, all that can be sent. Do not call it after the
  // end. `logprobs` has one element for each token, or is empty; those of tokens beyond the end are
  // dropped with them. The first `accepted` tokens are draft tokens.
  absl::StatusOr<Appended> Append(absl::Span<const uint32_t> tokens,
                                  std::vector<TokenLogprobs> logprobs = {}, uint32_t accepted = 0);

  // Call before the first Append.
  void SendPrompt(PromptLogprobs prompt);

  // From now on nothing is sent. Call before the first Append.
  void HoldBack() { held_back_ = true; }
  // Sends what was held back.
  void Release();
  bool held_back() const { return held_back_; }

  // The oldest message in the sink has been written.
  void OnWritten();

  // The reader is behind with the tokens of this text, or with the call's bytes: text, log
  // probabilities and round records of all samples.
  bool behind() const { return undelivered_ > max_undelivered_ || unread_.behind(); }
  bool caught_up() const { return undelivered_ <= max_undelivered_ / 2 && unread_.caught_up(); }
  uint32_t output_tokens() const { return output_tokens_; }  // with the output prefix
  uint32_t undelivered_tokens() const { return undelivered_; }
  size_t unread_bytes() const { return unread_.bytes(); }          // of the call
  const std::string& stop_string() const { return stop_string_; }  // empty: none matched

 private:
  absl::StatusOr<std::optional<Finish>> Add(uint32_t token, bool accepted);
  Finish End(Finish finish, bool accepted);
  StopMatcher::Result Match(absl::string_view text, bool accepted);
  void AddText(StopMatcher::Result result);
  void SendText(std::string text);
  void Flush();
  void Hold(size_t bytes);

  const uint32_t max_tokens_;
  const uint32_t min_tokens_;
  const std::vector<uint32_t> stop_token_ids_;
  const bool with_runs_;
  const std::unique_ptr<Detokenizer> detokenizer_;
  DeltaSink& sink_;
  const uint32_t max_undelivered_;
  UnreadCall& unread_;

  StopMatcher matcher_;
  TextRuns held_runs_;  // of the text in the matcher
  std::string stop_string_;
  uint32_t output_tokens_ = 0;
  bool ended_ = false;
  bool held_back_ = false;

  TextDelta pending_;            // text that the sink has not got yet
  size_t pending_bytes_ = 0;     // of it, that `unread_` knows of
  std::deque<uint32_t> queued_;  // tokens of each message that the sink has not written
  uint32_t undelivered_ = 0;     // tokens in both
};

}  // namespace tandem::orchestrator
