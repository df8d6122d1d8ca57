#include "client/common/outcome.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/theory/acceptance.h"

namespace tandem::client {
namespace {

// RULE_GREEDY -> greedy.
std::string ShortName(absl::string_view name, absl::string_view prefix) {
  absl::ConsumePrefix(&name, prefix);
  return absl::StrReplaceAll(absl::AsciiStrToLower(name), {{"_", "-"}});
}

// There are as many values as tokens, or none.
bool Fits(int values, int tokens) { return values == 0 || values == tokens; }

// The runs cover the text, or there are none.
bool RunsFit(const v1::Delta& delta) {
  uint64_t bytes = 0;
  for (const v1::TextRun& run : delta.text_runs()) bytes += run.bytes();
  return delta.text_runs().empty() || bytes == delta.text().size();
}

absl::Status CollectDelta(const v1::Delta& delta, uint32_t samples, Outcome& outcome) {
  if (delta.sample_index() >= samples) {
    return absl::InternalError(
        absl::StrCat("the service sent sample ", delta.sample_index(), "; there are ", samples));
  }
  if (!Fits(delta.logprobs_size(), delta.token_ids_size()) ||
      !Fits(delta.top_logprobs_size(), delta.token_ids_size())) {
    return absl::InternalError("the service sent log probabilities that fit no tokens");
  }
  if (!Fits(delta.token_bytes_size(), delta.token_ids_size())) {
    return absl::InternalError("the service sent bytes that fit no tokens");
  }
  if (!RunsFit(delta)) return absl::InternalError("the service sent text runs that fit no text");
  if (outcome.samples.size() <= delta.sample_index()) {
    outcome.samples.resize(delta.sample_index() + 1);
  }
  SampleOutput& sample = outcome.samples[delta.sample_index()];
  sample.text += delta.text();
  sample.token_ids.insert(sample.token_ids.end(), delta.token_ids().begin(),
                          delta.token_ids().end());
  sample.logprobs.insert(sample.logprobs.end(), delta.logprobs().begin(), delta.logprobs().end());
  sample.top_logprobs.insert(sample.top_logprobs.end(), delta.top_logprobs().begin(),
                             delta.top_logprobs().end());
  sample.token_bytes.insert(sample.token_bytes.end(), delta.token_bytes().begin(),
                            delta.token_bytes().end());
  return absl::OkStatus();
}

absl::Status CollectPrompt(const v1::PromptLogprobs& part, v1::PromptLogprobs& prompt) {
  if (part.logprobs_size() != part.token_ids_size() ||
      !Fits(part.top_size(), part.token_ids_size()) ||
      !Fits(part.token_bytes_size(), part.token_ids_size())) {
    return absl::InternalError("the service sent log probabilities that fit no prompt tokens");
  }
  const uint32_t next = prompt.first_position() + static_cast<uint32_t>(prompt.token_ids_size());
  if (prompt.token_ids_size() > 0 && part.first_position() != next) {
    return absl::InternalError(absl::StrCat("the service sent log probabilities of position ",
                                            part.first_position(), " after those up to ", next));
  }
  const uint32_t first =
      prompt.token_ids_size() > 0 ? prompt.first_position() : part.first_position();
  prompt.MergeFrom(part);
  prompt.set_first_position(first);
  return absl::OkStatus();
}

}  // namespace

v1::SampleEnd Outcome::End(size_t index) const {
  for (const v1::SampleEnd& end : last.samples()) {
    if (end.sample_index() == index) return end;
  }
  v1::SampleEnd end;
  end.set_sample_index(static_cast<uint32_t>(index));
  if (index > 0) return end;
  end.set_finish_reason(last.finish_reason());
  end.set_stop_string(last.stop_string());
  end.set_completion_tokens(last.usage().completion_tokens());
  *end.mutable_speculation() = last.speculation();
  return end;
}

absl::Status Collect(const v1::GenerateReply& reply, uint32_t samples, Outcome& outcome) {
  switch (reply.kind_case()) {
    case v1::GenerateReply::kStarted:
      outcome.started = reply.started();
      outcome.samples.resize(samples);  // some may have no text at all
      break;
    case v1::GenerateReply::kDelta:
      return CollectDelta(reply.delta(), samples, outcome);
    case v1::GenerateReply::kPromptLogprobs:
      return CollectPrompt(reply.prompt_logprobs(), outcome.prompt);
    case v1::GenerateReply::kRound:
      outcome.rounds.push_back(reply.round());
      break;
    case v1::GenerateReply::kLast:
      outcome.last = reply.last();
      break;
    case v1::GenerateReply::KIND_NOT_SET:
      break;  // from a newer service; this client does not know it
  }
  return absl::OkStatus();
}

double AlphaHat(const v1::AcceptanceRecord& record) {
  return theory::EstimateAlpha(record.accepted_tokens(), record.rejected_rounds());
}

double TokensPerPass(const v1::Last& last) {
  const uint32_t rounds = last.speculation().rounds();
  return rounds == 0 ? 0 : static_cast<double>(last.usage().completion_tokens()) / rounds;
}

double MeanBatch(const v1::AcceptanceRecord& record) {
  return record.rounds() == 0 ? 0 : static_cast<double>(record.batch_sequences()) / record.rounds();
}

double MillisecondsPerToken(const v1::Last& last) {
  const v1::Timing& timing = last.timing();
  if (last.usage().completion_tokens() < 2 || timing.total_us() < timing.first_token_us()) return 0;
  return static_cast<double>(timing.total_us() - timing.first_token_us()) / 1000 /
         (last.usage().completion_tokens() - 1);
}

std::string RuleName(v1::Rule rule) { return ShortName(v1::Rule_Name(rule), "RULE_"); }

std::string FinishReasonName(v1::FinishReason reason) {
  return ShortName(v1::FinishReason_Name(reason), "FINISH_REASON_");
}

}  // namespace tandem::client
