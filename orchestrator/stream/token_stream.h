// From committed tokens to what the client sees: where the text ends, its characters, and how far
// the reader is behind.
#pragma once

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

namespace tandem::orchestrator {

// As tokenizer::IncrementalDetokenizer.
class Detokenizer {
 public:
  virtual ~Detokenizer() = default;
  virtual absl::StatusOr<std::string> Feed(uint32_t id) = 0;
  virtual std::string Finish() = 0;
};

struct TextDelta {
  std::string text;  // whole UTF-8 characters
  std::vector<uint32_t> ids;
  std::vector<TokenLogprobs> logprobs;  // one an id, or none
};

class DeltaSink {
 public:
  virtual ~DeltaSink() = default;
  virtual void Send(TextDelta delta) = 0;
  virtual void SendPrompt(PromptLogprobs prompt) = 0;  // before the first delta
};

// Not thread-safe: one request's strand.
//
// A text ends, whichever comes first,
//   - with an end token: its id is reported, it has no text;
//   - with a stop string: the text ends before it, the ids go up to and including the token that
//   completed
//     it (a match that only the end of the text completes counts, too);
//   - with max_tokens, which is at most what the context has room for.
// A stop string that is complete within the first min_tokens does not end it; one that begins there
// and is completed later does. (End tokens are banned there by the target.)
// Text may come later than its id; by the end all has come.
class TokenStream {
 public:
  // Messages that wait to be written. Deltas beyond them are joined into the next one.
  static constexpr size_t kMaxQueuedMessages = 16;

  TokenStream(const GenerationRequest& request, std::unique_ptr<Detokenizer> detokenizer,
              DeltaSink& sink, uint32_t max_undelivered_tokens);

  // Takes the output that the client has already. Its text is not sent again, but for the part that
  // was held back when it stopped. INVALID_ARGUMENT when that output ends the text.
  absl::Status Resume(absl::Span<const uint32_t> output_prefix);

  struct Appended {
    uint32_t used = 0;  // tokens that belong to the text; less than given only at its end
    std::optional<Finish> finish;  // the text has ended
  };
  // Takes the next tokens and sends what can be sent, in one delta. Not to be called after the end.
  // `logprobs`: one a token, or none; those of tokens beyond the end are dropped with them.
  absl::StatusOr<Appended> Append(absl::Span<const uint32_t> tokens,
                                  std::vector<TokenLogprobs> logprobs = {});

  // Before the first Append.
  void SendPrompt(PromptLogprobs prompt);

  // The oldest of the messages that the sink was given has been written.
  void OnWritten();

  bool behind() const { return undelivered_ > max_undelivered_; }
  bool caught_up() const { return undelivered_ <= max_undelivered_ / 2; }
  uint32_t output_tokens() const { return output_tokens_; }  // output prefix included
  uint32_t undelivered_tokens() const { return undelivered_; }
  const std::string& stop_string() const { return stop_string_; }  // empty: none matched

 private:
  absl::StatusOr<std::optional<Finish>> Take(uint32_t token);
  Finish End(Finish finish);
  StopMatcher::Result Match(absl::string_view text);
  void TakeText(StopMatcher::Result result);
  void Flush();

  const uint32_t max_tokens_;
  const uint32_t min_tokens_;
  const std::vector<uint32_t> stop_token_ids_;
  const std::unique_ptr<Detokenizer> detokenizer_;
  DeltaSink& sink_;
  const uint32_t max_undelivered_;

  StopMatcher matcher_;
  std::string stop_string_;
  uint32_t output_tokens_ = 0;
  bool ended_ = false;

  TextDelta pending_;            // not given to the sink yet
  std::deque<uint32_t> queued_;  // tokens of each message that the sink has not written
  uint32_t undelivered_ = 0;     // tokens in both
};

}  // namespace tandem::orchestrator
