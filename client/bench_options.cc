#include "client/bench_options.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/config/address.h"
#include "common/config/status_macros.h"
#include "nlohmann/json.hpp"

namespace tandem::client {

BenchOptions::BenchOptions() { sampling.temperature = 0; }

void BenchOptions::AddTo(FlagSet& flags) {
  flags.Text("orchestrator", &orchestrator, "its address, host:port; 127.0.0.1:50050 when absent");
  flags.Text("prompts-file", &prompts_file,
             "one prompt a line, or JSON lines with \"prompt\"; built-in prompts when absent");
  flags.Number("prompts", &prompts, 0, 1 << 20, "only the first so many; 0 = all");
  flags.Number("max-tokens", &max_tokens, 2, UINT32_MAX, "output tokens a request (64)");
  flags.Number("repeats", &repeats, 1, 1000, "pairs of requests a prompt (3)");
  sampling.AddTo(flags);
  flags.Switch("json", &json, "print one JSON object instead of a table");
}

absl::Status BenchOptions::Validate() const {
  TANDEM_RETURN_IF_ERROR(config::ParseAddress("--orchestrator", orchestrator).status());
  if (sampling.draft_tokens == 0u) {
    return BadFlag("draft-tokens", "0",
                   "bench compares with the target alone by itself; must be auto, or 1 to 16");
  }
  return sampling.Validate();
}

std::vector<std::string> BuiltInPrompts() {
  return {
      "Once upon a time there was a",
      "The city was quiet in the morning, and the people who lived there",
      "She opened the letter and read it twice before",
      "The old captain looked at the sea and said",
      "This document describes the interface between",
      "The function returns an error if",
      "In the following example, the compiler",
      "When a new version of the library is released, users",
  };
}

absl::StatusOr<std::vector<std::string>> ParsePrompts(absl::string_view text,
                                                      absl::string_view file) {
  std::vector<std::string> prompts;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    absl::ConsumeSuffix(&line, "\r");
    if (line.empty()) continue;
    const std::string place = absl::StrCat(file, ":", number);
    std::string prompt(line);
    if (line[0] == '{') {
      nlohmann::json json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
      if (json.is_discarded() || !json.contains("prompt") || !json["prompt"].is_string()) {
        return absl::InvalidArgumentError(
            absl::StrCat(place, ": must be a JSON object with a text \"prompt\""));
      }
      prompt = json["prompt"].get<std::string>();
    }
    TANDEM_RETURN_IF_ERROR(CheckPrompt(prompt, place));
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": has no prompt; one a line"));
  }
  return prompts;
}

}  // namespace tandem::client
