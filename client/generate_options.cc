#include "client/generate_options.h"

#include "absl/strings/str_cat.h"
#include "common/config/address.h"
#include "common/config/status_macros.h"

namespace tandem::client {
namespace {

constexpr size_t kMostStopStrings = 16;
constexpr size_t kMostStopBytes = 1024;

// The length of the UTF-8 character that `text` begins with; 0 if it begins with none.
size_t CharacterLength(absl::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what is past U+10FFFF.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) >= 0xa0)) return 0;
  if ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) >= 0x90)) return 0;
  return length;
}

// Where the first byte lies that is part of no character; npos if none does.
size_t FirstBadByte(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = CharacterLength(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return absl::string_view::npos;
}

}  // namespace

void SamplingFlags::AddTo(FlagSet& flags) {
  flags.Custom(
      "draft-tokens",
      [this](absl::string_view text) {
        if (text == "auto") {
          draft_tokens.reset();
          return absl::OkStatus();
        }
        uint64_t number = 0;
        FlagSet inner("", "");
        inner.Number("n", &number, 0, kMostDraftTokens, "");
        if (!inner.Parse({absl::StrCat("--n=", text)}).ok()) {
          return BadFlag("draft-tokens", text,
                         absl::StrCat("must be auto, or a whole number, 0 (the target alone) to ",
                                      kMostDraftTokens));
        }
        draft_tokens = static_cast<uint32_t>(number);
        return absl::OkStatus();
      },
      "candidates a round: auto (the default), or 1 to 16; 0 = the target alone");
  flags.Text("drafter", &drafter,
             "model, prompt-lookup or random; the draft service's default when absent");
  flags.Choice("rule", &rule, {"greedy", "speculative"},
               "greedy or speculative; follows from the temperature when absent");
  flags.Number("seed", &seed, 0, UINT64_MAX, "of all randomness; drawn when absent");
  flags.Real("temperature", &temperature, {0, 100}, "0 = greedy; 1 when absent");
  flags.Number("top-k", &top_k, 0, UINT32_MAX, "keep the k most likely tokens; 0 = all");
  flags.Real("top-p", &top_p, {0, 1, /*above_least=*/true},
             "keep the most likely tokens that make up p; 1 = all");
}

absl::Status SamplingFlags::Validate() const {
  if (rule == "greedy" && temperature.value_or(1) != 0) {
    return BadFlag(
        "rule", rule,
        absl::StrCat("needs --temperature=0; the temperature is ", temperature.value_or(1)));
  }
  return absl::OkStatus();
}

void SamplingFlags::Apply(v1::GenerateRequest& request) const {
  v1::SamplingOptions& sampling = *request.mutable_sampling();
  if (temperature) sampling.set_temperature(static_cast<float>(*temperature));
  if (top_k) sampling.set_top_k(static_cast<uint32_t>(*top_k));
  if (top_p) sampling.set_top_p(static_cast<float>(*top_p));
  if (seed) request.set_seed(*seed);
  v1::SpeculationOptions& speculation = *request.mutable_speculation();
  if (rule == "greedy") speculation.set_rule(v1::RULE_GREEDY);
  if (rule == "speculative") speculation.set_rule(v1::RULE_SPECULATIVE);
  if (draft_tokens) {
    speculation.set_fixed(*draft_tokens);
  } else {
    speculation.set_auto_(true);
  }
  speculation.set_drafter(drafter);
}

void GenerateOptions::AddTo(FlagSet& flags) {
  flags.Text("orchestrator", &orchestrator, "its address, host:port; 127.0.0.1:50050 when absent");
  flags.Custom(
      "prompt",
      [this](absl::string_view text) {
        prompt = std::string(text);
        return absl::OkStatus();
      },
      "the text to continue");
  flags.Custom(
      "prompt-file",
      [this](absl::string_view text) {
        prompt_file = std::string(text);
        return absl::OkStatus();
      },
      "a file with the text to continue, taken as it is; - = standard input");
  flags.Number("max-tokens", &max_tokens, 0, UINT32_MAX,
               "output tokens (128); 0 = all that the context has room for");
  sampling.AddTo(flags);
  flags.TextList("stop", &stop, "the text ends before the first of these; may be repeated");
  flags.Number("priority", &priority, 0, kMostPriority,
               "0 = normal; 1 to 10: admitted and served before others");
  flags.Duration("timeout", &timeout, "the longest that the whole may take; 0 = unlimited");
  flags.Choice("format", &format, {"text", "json"}, "text, or json: one object a line");
  flags.Text("record", &record, "a file to write the final JSON object to, whatever the format");
}

absl::Status GenerateOptions::Validate() const {
  TANDEM_RETURN_IF_ERROR(config::ParseAddress("--orchestrator", orchestrator).status());
  if (prompt.has_value() == prompt_file.has_value()) {
    return absl::InvalidArgumentError(prompt.has_value()
                                          ? "--prompt and --prompt-file: give only one of them"
                                          : "give the text to continue, --prompt=TEXT or "
                                            "--prompt-file=FILE");
  }
  if (prompt) TANDEM_RETURN_IF_ERROR(CheckPrompt(*prompt, "--prompt"));
  if (stop.size() > kMostStopStrings) {
    return absl::InvalidArgumentError(
        absl::StrCat("--stop is given ", stop.size(), " times; at most ", kMostStopStrings));
  }
  for (const std::string& text : stop) {
    if (text.empty() || text.size() > kMostStopBytes || FirstBadByte(text) != text.npos) {
      return BadFlag("stop", text.substr(0, 40),
                     absl::StrCat("must be UTF-8, 1 to ", kMostStopBytes, " bytes"));
    }
  }
  return sampling.Validate();
}

v1::GenerateRequest MakeRequest(const GenerateOptions& options, absl::string_view prompt) {
  v1::GenerateRequest request;
  request.set_text(std::string(prompt));
  request.set_max_tokens(static_cast<uint32_t>(options.max_tokens));
  for (const std::string& text : options.stop) request.mutable_stop()->add_strings(text);
  request.set_priority(static_cast<uint32_t>(options.priority));
  options.sampling.Apply(request);
  return request;
}

absl::Status CheckPrompt(absl::string_view prompt, absl::string_view source) {
  if (prompt.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": the prompt is empty; it must have at least one character"));
  }
  if (size_t at = FirstBadByte(prompt); at != absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": the prompt is not UTF-8 (byte ", at, " is part of no character)"));
  }
  return absl::OkStatus();
}

}  // namespace tandem::client
