#include "client/generate/logprob_table.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tandem::client {
namespace {

constexpr int kAlternativesALine = 3;

// "  312 -1.23" three times, then a new line below it.
void AppendAlternatives(const v1::TopLogprobs& top, std::string& text) {
  for (int i = 0; i < top.tokens_size(); ++i) {
    if (i > 0 && i % kAlternativesALine == 0) {
      absl::StrAppendFormat(&text, "\n%35s", "");
    }
    absl::StrAppendFormat(&text, " %6d %7.3f", top.tokens(i).token(), top.tokens(i).logprob());
  }
}

void AppendRow(size_t position, uint32_t token, float logprob, const v1::TopLogprobs* top,
               std::string& text) {
  absl::StrAppendFormat(&text, "  %7d %7d %9.4f %6.2f%%", position, token, logprob,
                        100 * std::exp(static_cast<double>(logprob)));
  if (top != nullptr) AppendAlternatives(*top, text);
  text += "\n";
}

std::string Head(const std::string& of, bool alternatives) {
  return absl::StrFormat("log probabilities of %s\n  %7s %7s %9s %7s%s\n", of, "place", "token",
                         "logprob", "prob", alternatives ? "  most likely: token logprob" : "");
}

}  // namespace

std::string LogprobTable(const Outcome& outcome) {
  std::string text;
  const v1::PromptLogprobs& prompt = outcome.prompt;
  if (prompt.token_ids_size() > 0) text += Head("the prompt", prompt.top_size() > 0);
  for (int i = 0; i < prompt.token_ids_size(); ++i) {
    AppendRow(prompt.first_position() + static_cast<size_t>(i), prompt.token_ids(i),
              prompt.logprobs(i), prompt.top_size() > 0 ? &prompt.top(i) : nullptr, text);
  }
  for (size_t index = 0; index < outcome.samples.size(); ++index) {
    const SampleOutput& sample = outcome.samples[index];
    // Some tokens may lack them, if the service stopped half-way.
    if (sample.logprobs.empty() || sample.logprobs.size() != sample.token_ids.size()) continue;
    const bool alternatives = sample.top_logprobs.size() == sample.token_ids.size();
    text += Head(outcome.samples.size() > 1 ? absl::StrCat("sample ", index) : "the output",
                 alternatives);
    for (size_t i = 0; i < sample.token_ids.size(); ++i) {
      AppendRow(i, sample.token_ids[i], sample.logprobs[i],
                alternatives ? &sample.top_logprobs[i] : nullptr, text);
    }
  }
  return text;
}

}  // namespace tandem::client
