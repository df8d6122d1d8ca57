#include "client/generate/logprob_table.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/common/terminal.h"
#include "client/common/token_text.h"

namespace tandem::client {
namespace {

constexpr int kAlternativesALine = 3;
constexpr int kWidth = 80;
constexpr int kIndent = 10;  // of alternatives with texts

// "  312 -1.23" three times, then a new line below it.
void AppendAlternatives(const v1::TopLogprobs& top, std::string& text) {
  for (int i = 0; i < top.tokens_size(); ++i) {
    if (i > 0 && i % kAlternativesALine == 0) {
      absl::StrAppendFormat(&text, "\n%35s", "");
    }
    absl::StrAppendFormat(&text, " %6d %7.3f", top.tokens(i).token(), top.tokens(i).logprob());
  }
}

// `  312 " a" -1.23` and so on, below the token.
std::string AlternativesWithTexts(const v1::TopLogprobs& top) {
  std::vector<std::string> items;
  for (const v1::TokenLogprob& token : top.tokens()) {
    items.push_back(absl::StrFormat("%d %s %.3f", token.token(), QuotedToken(token.token_bytes()),
                                    token.logprob()));
  }
  return Wrap(items, /*gap=*/2, kWidth, kIndent);
}

// `top`, `bytes`: null if there are none.
void AppendRow(size_t position, uint32_t token, float logprob, const v1::TopLogprobs* top,
               const std::string* bytes, std::string& text) {
  absl::StrAppendFormat(&text, "  %7d %7d %9.4f %6.2f%%", position, token, logprob,
                        100 * std::exp(static_cast<double>(logprob)));
  if (bytes != nullptr) absl::StrAppend(&text, "  ", QuotedToken(*bytes));
  if (top != nullptr && bytes == nullptr) AppendAlternatives(*top, text);
  text += "\n";
  if (top != nullptr && bytes != nullptr) text += AlternativesWithTexts(*top);
}

std::string Head(const std::string& of, bool alternatives, bool texts) {
  const char* more = alternatives ? "  most likely: token logprob" : "";
  if (texts) more = alternatives ? "  text; below: most likely tokens" : "  text";
  return absl::StrFormat("log probabilities of %s\n  %7s %7s %9s %7s%s\n", of, "place", "token",
                         "logprob", "prob", more);
}

}  // namespace

std::string LogprobTable(const Outcome& outcome) {
  std::string text;
  const v1::PromptLogprobs& prompt = outcome.prompt;
  const bool prompt_texts = prompt.token_bytes_size() > 0;
  if (prompt.token_ids_size() > 0) {
    text += Head("the prompt", prompt.top_size() > 0, prompt_texts);
  }
  for (int i = 0; i < prompt.token_ids_size(); ++i) {
    AppendRow(prompt.first_position() + static_cast<size_t>(i), prompt.token_ids(i),
              prompt.logprobs(i), prompt.top_size() > 0 ? &prompt.top(i) : nullptr,
              prompt_texts ? &prompt.token_bytes(i) : nullptr, text);
  }
  for (size_t index = 0; index < outcome.samples.size(); ++index) {
    const SampleOutput& sample = outcome.samples[index];
    // Some tokens may lack them, if the service stopped half-way.
    if (sample.logprobs.empty() || sample.logprobs.size() != sample.token_ids.size()) continue;
    const bool texts = sample.token_bytes.size() == sample.token_ids.size();
    const bool alternatives = sample.top_logprobs.size() == sample.token_ids.size();
    text += Head(outcome.samples.size() > 1 ? absl::StrCat("sample ", index) : "the output",
                 alternatives, texts);
    for (size_t i = 0; i < sample.token_ids.size(); ++i) {
      AppendRow(i, sample.token_ids[i], sample.logprobs[i],
                alternatives ? &sample.top_logprobs[i] : nullptr,
                texts ? &sample.token_bytes[i] : nullptr, text);
    }
  }
  return text;
}

}  // namespace tandem::client
