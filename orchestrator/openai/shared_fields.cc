// The fields that completions and chat share.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/flags/nearest_name.h"
#include "common/messages/request_options.h"
#include "orchestrator/openai/completion_request.h"
#include "orchestrator/request/request.h"

namespace tandem::orchestrator {
namespace {

void ReadStream(Fields& fields, CompletionRequest& to) {
  to.stream = fields.Bool("stream").value_or(false);
  const auto options = fields.Object("stream_options");
  if (!options.has_value()) return;
  if (!to.stream) return fields.Fail("stream_options", "is there, but stream is not true");
  Fields of_stream(*options, "stream_options.");
  to.include_usage = of_stream.Bool("include_usage").value_or(false);
  of_stream.Only("continuous_usage_stats", false);
  of_stream.Inert({"include_obfuscation"});
  fields.Keep(of_stream.Finish());
}

void ReadSeed(Fields& fields, v1::GenerateRequest& to) {
  const auto seed = fields.Any("seed");
  if (!seed.has_value()) return;
  if (const auto whole = seed->Unsigned()) {
    to.set_seed(*whole);
  } else if (const auto negative = seed->Integer()) {
    to.set_seed(static_cast<uint64_t>(*negative));
  } else if (uint64_t number = 0; absl::SimpleAtoi(seed->String().value_or(""), &number)) {
    to.set_seed(number);  // as `tandem.seed` names it: a string keeps all of its digits
  } else {
    fields.Fail("seed", "is not a whole number of 64 bits");
  }
}

void ReadStop(Fields& fields, v1::StopRules& to) {
  const auto stop = fields.Any("stop");
  if (stop.has_value()) {
    if (auto text = stop->String()) {
      to.add_strings(*std::move(text));
    } else if (!stop->IsArray()) {
      fields.Fail("stop", "is neither a string nor a list of strings");
    } else {
      for (const base::JsonValue& element : stop->Elements()) {
        auto one = element.String();
        if (!one.has_value())
          return fields.Fail("stop", "is neither a string nor a list of strings");
        to.add_strings(*std::move(one));
      }
    }
  }
  fields.Only("include_stop_str_in_output", false);
}

// {"50256": -100}
void ReadBias(Fields& fields, v1::SamplingOptions& to) {
  const auto bias = fields.Object("logit_bias");
  if (!bias.has_value()) return;
  for (const auto& [name, value] : bias->Members()) {
    uint32_t token = 0;
    const auto number = value.Number();
    const bool digits = !name.empty() && std::all_of(name.begin(), name.end(),
                                                     [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || !absl::SimpleAtoi(name, &token) || !number.has_value()) {
      return fields.Fail("logit_bias", "does not map token ids to numbers");
    }
    v1::LogitBias& entry = *to.add_logit_bias();
    entry.set_token(token);
    entry.set_bias(static_cast<float>(*number));
  }
}

// What is read by hand, for it has forms of its own.
constexpr absl::string_view kOwnForm[] = {
    "logit_bias",          "seed",          "stop", "max_tokens", "n", "logprobs", "user",
    "tandem.draft_tokens", "tandem.drafter"};

// The value of an option, where it is there and has the option's type.
std::optional<messages::OptionValue> ReadOption(Fields& fields, absl::string_view name,
                                                const messages::RequestOption& option) {
  using messages::OptionType;
  switch (option.type()) {
    case OptionType::kSwitch:
      return fields.Bool(name);
    case OptionType::kWhole:
      // -1 is vLLM's old word for all of them.
      if (name == "top_k" && fields.Any(name) && fields.Any(name)->Integer() == -1)
        return uint64_t{0};
      return fields.Unsigned(name, 0, UINT32_MAX);
    case OptionType::kReal:
      return fields.Number(name);
    case OptionType::kText:
      return fields.Text(name);
    case OptionType::kIds:
      return fields.Ids(name);
    case OptionType::kChoice: {
      const auto text = fields.Text(name);
      const std::vector<std::string> choices = option.choices();
      if (!text.has_value()) return std::nullopt;
      const std::string choice = absl::AsciiStrToLower(*text);
      if (std::find(choices.begin(), choices.end(), choice) != choices.end()) return choice;
      fields.Fail(name, absl::StrCat("is none of ", absl::StrJoin(choices, ", "),
                                     flags::DidYouMean(*text, choices)));
      return std::nullopt;
    }
    case OptionType::kOther:
      break;
  }
  return std::nullopt;
}

// Of the body, or of its member `tandem`.
void ReadOptions(Fields& fields, bool of_tandem, v1::GenerateRequest& to) {
  for (const messages::RequestOption& option : messages::RequestOptions()) {
    absl::string_view name = option.json;
    const bool own =
        std::find(std::begin(kOwnForm), std::end(kOwnForm), name) != std::end(kOwnForm);
    if (name.empty() || own || absl::ConsumePrefix(&name, "tandem.") != of_tandem) continue;
    if (const auto value = ReadOption(fields, name, option)) SetOption(option, *value, to);
  }
}

void ReadDraftTokens(Fields& fields, v1::SpeculationOptions& to) {
  const auto tokens = fields.Any("draft_tokens");
  if (!tokens.has_value() || tokens->String() == "auto") return;
  const auto count = tokens->Unsigned();
  if (!count.has_value() || *count > UINT32_MAX) {
    return fields.Fail("draft_tokens", "is neither \"auto\" nor a whole number");
  }
  to.set_fixed(static_cast<uint32_t>(*count));
}

// One; several, separated by commas; or auto.
void ReadDrafter(Fields& fields, v1::SpeculationOptions& to) {
  const auto text = fields.Text("drafter");
  if (!text.has_value()) return;
  const std::vector<std::string> names = absl::StrSplit(*text, ',');
  if (names.size() == 1) {
    to.set_drafter(*text);
  } else {
    to.mutable_drafters()->Add(names.begin(), names.end());
  }
}

}  // namespace

void ReadTandemFields(Fields& fields, v1::GenerateRequest& to, absl::Duration& timeout) {
  ReadDraftTokens(fields, *to.mutable_speculation());
  ReadDrafter(fields, *to.mutable_speculation());
  ReadOptions(fields, /*of_tandem=*/true, to);
  const auto processed = fields.Bool("processed_logprobs");
  if (processed.value_or(false)) to.mutable_logprobs()->set_processed(true);
  if (const auto seconds = fields.Number("timeout")) {
    if (!(*seconds > 0)) fields.Fail("timeout", "is not a number of seconds above 0");
    timeout = absl::Seconds(*seconds);
  }
}

void ReadSharedFields(Fields& fields, CompletionRequest& to) {
  to.model = fields.Text("model");
  ReadStream(fields, to);
  ReadSeed(fields, to.wire);
  ReadStop(fields, *to.wire.mutable_stop());
  ReadBias(fields, *to.wire.mutable_sampling());
  ReadOptions(fields, /*of_tandem=*/false, to.wire);
  if (const auto samples = fields.Unsigned("n", 1, kMaxSamples)) {
    to.wire.set_samples(static_cast<uint32_t>(*samples));
  }
  to.return_token_ids = fields.Bool("return_token_ids").value_or(false);
  Fields of_tandem(fields.Object("tandem").value_or(base::JsonValue()), "tandem.");
  ReadTandemFields(of_tandem, to.wire, to.timeout);
  fields.Keep(of_tandem.Finish());
  fields.Suggest(of_tandem);
  if (const auto format = fields.Object("response_format")) {
    if ((*format)["type"].String() != "text") {
      fields.Fail("response_format", "is served only as {\"type\": \"text\"}");
    }
  }
  if (auto user = fields.Text("user")) to.wire.set_user(*std::move(user));
  fields.Only("skip_special_tokens", true);
  fields.Only("spaces_between_special_tokens", true);
  fields.Only("add_special_tokens", true);
  if (const auto priority = fields.Any("priority"); priority.has_value()) {
    fields.Fail("priority",
                "is not served, for engines disagree on its order: give tandem.priority, "
                "0 to 10, the highest first");
  }
  fields.Refuse({"use_beam_search", "length_penalty", "early_stopping", "truncate_prompt_tokens",
                 "prompt_logprobs", "guided_json", "guided_regex", "guided_choice",
                 "guided_grammar", "structured_outputs"});
  fields.Inert({"metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"});
}

}  // namespace tandem::orchestrator
