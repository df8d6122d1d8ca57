#include "orchestrator/stream/token_stream.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace tandem::orchestrator {
namespace {

size_t BytesOf(const TokenLogprobs& logprobs) {
  return sizeof(TokenLogprobs) + sizeof(sampling::TokenLogprob) * logprobs.top.capacity();
}

}  // namespace

TokenStream::TokenStream(const GenerationRequest& request, std::unique_ptr<Detokenizer> detokenizer,
                         DeltaSink& sink, uint32_t max_undelivered_tokens, UnreadCall& unread)
    : max_tokens_(request.max_tokens),
      min_tokens_(request.sampling.min_tokens),
      stop_token_ids_(request.sampling.stop_token_ids),
      with_runs_(request.text_runs),
      detokenizer_(std::move(detokenizer)),
      sink_(sink),
      max_undelivered_(max_undelivered_tokens),
      unread_(unread),
      matcher_(request.stop_strings) {}

absl::Status TokenStream::Resume(absl::Span<const uint32_t> output_prefix) {
  for (size_t i = 0; i < output_prefix.size(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(std::optional<Finish> finish, Add(output_prefix[i], false));
    if (finish.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("output_prefix_ids: the text ends at index ",
                                                     i, " (id ", output_prefix[i],
                                                     "): there is nothing to resume"));
    }
  }
  pending_ = {};
  undelivered_ = 0;
  return absl::OkStatus();
}

absl::StatusOr<TokenStream::Appended> TokenStream::Append(absl::Span<const uint32_t> tokens,
                                                          std::vector<TokenLogprobs> logprobs,
                                                          uint32_t accepted) {
  TANDEM_CHECK(!ended_ && (logprobs.empty() || logprobs.size() == tokens.size()));
  Appended appended;
  const size_t text_before = pending_.text.size();
  const size_t runs_before = pending_.runs.size();
  size_t bytes = 0;
  for (uint32_t token : tokens) {
    TANDEM_ASSIGN_OR_RETURN(appended.finish, Add(token, appended.used < accepted));
    bytes += sizeof(token);
    if (!logprobs.empty()) {
      bytes += BytesOf(logprobs[appended.used]);
      pending_.logprobs.push_back(std::move(logprobs[appended.used]));
    }
    ++appended.used;
    if (appended.finish.has_value()) break;
  }
  if (!held_back_ && (queued_.size() < kMaxQueuedMessages || ended_)) {
    Flush();
  } else {
    Hold(bytes + pending_.text.size() - text_before +
         sizeof(TextRun) * (pending_.runs.size() - runs_before));
  }
  return appended;
}

absl::StatusOr<std::optional<Finish>> TokenStream::Add(uint32_t token, bool accepted) {
  ++output_tokens_;
  ++undelivered_;
  pending_.ids.push_back(token);
  if (std::find(stop_token_ids_.begin(), stop_token_ids_.end(), token) != stop_token_ids_.end()) {
    return End(Finish::kStop, accepted);
  }
  TANDEM_ASSIGN_OR_RETURN(std::string text, detokenizer_->Feed(token));
  AddText(Match(text, accepted));
  if (ended_) return Finish::kStop;
  if (output_tokens_ >= max_tokens_) return End(Finish::kLength, accepted);
  return std::nullopt;
}

// Text that the detokenizer still holds may complete a stop string. Then the text ended by it.
Finish TokenStream::End(Finish finish, bool accepted) {
  AddText(Match(detokenizer_->Finish(), accepted));
  if (ended_) return Finish::kStop;
  ended_ = true;
  SendText(matcher_.Finish());
  return finish;
}

StopMatcher::Result TokenStream::Match(absl::string_view text, bool accepted) {
  if (with_runs_) held_runs_.Push(text.size(), accepted);
  return matcher_.Feed(text, /*may_end=*/output_tokens_ > min_tokens_);
}

void TokenStream::SendText(std::string text) {
  if (with_runs_) held_runs_.Pop(text.size(), pending_.runs);
  pending_.text += text;
}

void TokenStream::AddText(StopMatcher::Result result) {
  SendText(std::move(result.text));
  if (!result.matched.has_value()) return;
  stop_string_ = matcher_.string(*result.matched);
  ended_ = true;
}

void TokenStream::SendPrompt(PromptLogprobs prompt) {
  TANDEM_CHECK(pending_.ids.empty());
  queued_.push_back(0);
  sink_.SendPrompt(std::move(prompt));
}

void TokenStream::Release() {
  held_back_ = false;
  Flush();
}

void TokenStream::OnWritten() {
  TANDEM_CHECK(!queued_.empty());
  undelivered_ -= queued_.front();
  queued_.pop_front();
  Flush();
}

void TokenStream::Flush() {
  if (pending_.ids.empty() && pending_.text.empty()) return;
  queued_.push_back(static_cast<uint32_t>(pending_.ids.size()));
  sink_.Send(std::exchange(pending_, {}));
  unread_.Remove(std::exchange(pending_bytes_, 0));
}

void TokenStream::Hold(size_t bytes) {
  pending_bytes_ += bytes;
  unread_.Add(bytes);
}

}  // namespace tandem::orchestrator
