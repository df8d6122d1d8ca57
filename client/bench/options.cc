#include "client/bench/options.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/common/prompt.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"

namespace tandem::client {
namespace {

// Nullopt: not one of off, auto or 1 to kMaxDraftTokens.
std::optional<BenchMode> ParseMode(absl::string_view text) {
  if (text == "off") return BenchMode{0};
  if (text == "auto") return BenchMode{};
  const std::optional<uint64_t> number = flags::ParseWhole(text, 1, kMaxDraftTokens);
  if (!number.has_value()) return std::nullopt;
  return BenchMode{static_cast<uint32_t>(*number)};
}

}  // namespace

BenchOptions::BenchOptions() { request.request.mutable_sampling()->set_temperature(0); }

void BenchOptions::AddTo(flags::FlagSet& flags) {
  orchestrator.AddTo(flags);
  flags.Group("Requests");
  flags.Text("prompts-file", &prompts_file,
             "file with one prompt per line, or JSON lines with \"prompt\". Default: built-in "
             "prompts");
  flags.Text("chat", &chat_file,
             "file with one conversation per line, JSON with \"messages\" as in OpenAI's API; the "
             "model's chat template makes the prompts, and the model ends its answers");
  flags.Number("prompts", &prompts, 0, 1 << 20, "use only the first prompts, this many; 0 = all");
  flags.Number("max-tokens", &max_tokens, 2, UINT32_MAX, "output tokens per request");
  flags.Number("repeats", &repeats, 1, 1000,
               "pairs of requests per prompt; with --concurrency, runs of each mode");
  flags.Group("What is compared");
  flags.Custom(
      "against",
      [this](absl::string_view text) {
        TANDEM_ASSIGN_OR_RETURN(against, ParseAgainst(text));
        return absl::OkStatus();
      },
      "baseline on the same prompt: off, auto or draft tokens per round (off)");
  flags.Custom(
      "concurrency",
      [this](absl::string_view text) {
        TANDEM_ASSIGN_OR_RETURN(concurrency, ParseConcurrency(text));
        return absl::OkStatus();
      },
      "N[,N...]: keep this many requests running instead of pairs, one table each; takes minutes");
  flags.Custom(
      "modes",
      [this](absl::string_view text) {
        TANDEM_ASSIGN_OR_RETURN(modes, ParseModes(text));
        return absl::OkStatus();
      },
      "with --concurrency: off, auto or draft tokens per round, interleaved (off,2,4)");
  flags.Duration("window", &window, absl::Milliseconds(100), absl::Hours(1),
                 "with --concurrency: minimum time per run");
  flags.Switch("idle", &idle,
               "measure instead the time to first token after a silence, compared with a busy "
               "system");
  flags.Duration("silence", &silence, absl::Milliseconds(1), absl::Minutes(10),
                 "with --idle: length of the silence");
  request.AddTo(flags);
  flags.Group("Output");
  flags.Switch("json", &json, "print one JSON object instead of a table");
}

absl::Status BenchOptions::Validate() const {
  TANDEM_RETURN_IF_ERROR(orchestrator.Validate());
  const bool load = !concurrency.empty();
  if (!chat_file.empty() && !prompts_file.empty()) {
    return absl::InvalidArgumentError("--chat and --prompts-file both name the prompts; give one");
  }
  if (load && idle) {
    return absl::InvalidArgumentError("--idle and --concurrency are two benchmarks; give one");
  }
  if (load && against.has_value()) {
    return absl::InvalidArgumentError(
        "--against applies to pairs of requests; with --concurrency list both in --modes");
  }
  if (idle && against.has_value()) {
    return absl::InvalidArgumentError("--against and --idle are two benchmarks; give one");
  }
  if (!load && !modes.empty()) {
    return absl::InvalidArgumentError("--modes needs --concurrency=N");
  }
  if (load && request.draft_tokens().has_value()) {
    return flags::BadFlag("draft-tokens", absl::StrCat(*request.draft_tokens()),
                          "does not apply with --concurrency; use --modes=off,2,4, for example");
  }
  if (!idle && !load && request.draft_tokens() == 0u) {
    return flags::BadFlag("draft-tokens", "0",
                          "bench compares requests with a draft with plain decoding "
                          "(--against=off, the default); must be auto, or 1 to 16");
  }
  if (!idle && !load && request.draft_tokens() == Against().draft_tokens) {
    return flags::BadFlag("against", Against().Name(), "equals --draft-tokens; name another");
  }
  return request.Validate();
}

std::vector<BenchMode> BenchOptions::Modes() const {
  return modes.empty() ? std::vector<BenchMode>{{0}, {2}, {4}} : modes;
}

absl::StatusOr<std::vector<uint32_t>> ParseConcurrency(absl::string_view text) {
  std::vector<uint32_t> values;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::optional<uint64_t> value = flags::ParseWhole(part, 1, kMaxConcurrency);
    if (!value.has_value()) {
      return flags::BadFlag("concurrency", text,
                            absl::StrCat("must be whole numbers, 1 to ", kMaxConcurrency,
                                         ", with commas between them"));
    }
    if (!values.empty() && *value <= values.back()) {
      return flags::BadFlag("concurrency", text, "must rise from number to number");
    }
    values.push_back(static_cast<uint32_t>(*value));
  }
  return values;
}

absl::StatusOr<BenchMode> ParseAgainst(absl::string_view text) {
  const std::optional<BenchMode> mode = ParseMode(text);
  if (mode.has_value()) return *mode;
  return flags::BadFlag("against", text,
                        absl::StrCat("must be off, auto, or 1 to ", kMaxDraftTokens));
}

absl::StatusOr<std::vector<BenchMode>> ParseModes(absl::string_view text) {
  std::vector<BenchMode> modes;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::optional<BenchMode> mode = ParseMode(part);
    if (!mode.has_value()) {
      return flags::BadFlag("modes", text,
                            absl::StrCat("must be off, auto or 1 to ", kMaxDraftTokens,
                                         ", with commas between them"));
    }
    for (const BenchMode& other : modes) {
      if (other.draft_tokens == mode->draft_tokens) {
        return flags::BadFlag("modes", text, absl::StrCat(mode->Name(), " is listed twice"));
      }
    }
    modes.push_back(*mode);
  }
  return modes;
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
      const auto json = base::JsonValue::Parse(line);
      const auto text = json.ok() ? (*json)["prompt"].String() : std::nullopt;
      if (!text.has_value()) {
        return absl::InvalidArgumentError(
            absl::StrCat(place, ": must be a JSON object with a text \"prompt\""));
      }
      prompt = *text;
    }
    TANDEM_RETURN_IF_ERROR(CheckPrompt(prompt, place));
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": no prompt; one per line is required"));
  }
  return prompts;
}

}  // namespace tandem::client
