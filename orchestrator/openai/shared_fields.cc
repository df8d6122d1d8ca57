// The fields that completions and chat share.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/flags/nearest_name.h"
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
  if (const auto ids = fields.Ids("stop_token_ids")) {
    to.mutable_token_ids()->Add(ids->begin(), ids->end());
  }
  if (const auto ignore = fields.Bool("ignore_eos")) to.set_ignore_eos(*ignore);
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

void ReadSampling(Fields& fields, v1::SamplingOptions& to) {
  const auto number = [&fields](absl::string_view name) -> std::optional<float> {
    const auto value = fields.Number(name);
    return value.has_value() ? std::optional(static_cast<float>(*value)) : std::nullopt;
  };
  if (const auto value = number("temperature")) to.set_temperature(*value);
  if (const auto value = number("top_p")) to.set_top_p(*value);
  if (const auto value = number("min_p")) to.set_min_p(*value);
  if (const auto value = number("presence_penalty")) to.set_presence_penalty(*value);
  if (const auto value = number("frequency_penalty")) to.set_frequency_penalty(*value);
  if (const auto value = number("repetition_penalty")) to.set_repetition_penalty(*value);
  // -1 is vLLM's old word for all of them.
  if (const auto value = fields.Any("top_k"); value.has_value() && value->Integer() == -1) {
    to.set_top_k(0);
  } else if (const auto count = fields.Unsigned("top_k", 0, UINT32_MAX)) {
    to.set_top_k(static_cast<uint32_t>(*count));
  }
  if (const auto count = fields.Unsigned("min_tokens", 0, UINT32_MAX)) {
    to.set_min_tokens(static_cast<uint32_t>(*count));
  }
  if (const auto ids = fields.Ids("allowed_token_ids")) {
    to.mutable_allowed_token_ids()->Add(ids->begin(), ids->end());
  }
  ReadBias(fields, to);
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

// A value of an enum by its name: `prefix` + NAME in capitals.
template <typename Enum, typename Parse>
std::optional<Enum> Named(Fields& fields, absl::string_view name, absl::string_view prefix,
                          absl::string_view known, const Parse& parse) {
  const auto text = fields.Text(name);
  if (!text.has_value()) return std::nullopt;
  std::string upper = absl::StrCat(prefix, *text);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  Enum value{};
  if (parse(upper, &value) && static_cast<int>(value) != 0) return value;
  fields.Fail(name, absl::StrCat("is none of ", known,
                                 flags::DidYouMean(*text, absl::StrSplit(known, ", "))));
  return std::nullopt;
}

void ReadSpeculation(Fields& fields, v1::SpeculationOptions& to) {
  if (const auto rule = Named<v1::Rule>(
          fields, "rule", "RULE_", "greedy, speculative, block, coupled, lenient",
          [](const std::string& name, v1::Rule* value) { return v1::Rule_Parse(name, value); })) {
    to.set_rule(*rule);
  }
  if (const auto proposal = Named<v1::Proposal>(fields, "proposal", "PROPOSAL_", "sampled, greedy",
                                                [](const std::string& name, v1::Proposal* value) {
                                                  return v1::Proposal_Parse(name, value);
                                                })) {
    to.set_proposal(*proposal);
  }
  if (const auto policy =
          Named<v1::LengthPolicy>(fields, "length_policy", "LENGTH_POLICY_", "auto, heuristic",
                                  [](const std::string& name, v1::LengthPolicy* value) {
                                    return v1::LengthPolicy_Parse(name, value);
                                  })) {
    to.set_length_policy(*policy);
  }
  ReadDraftTokens(fields, to);
  if (const auto nodes = fields.Unsigned("draft_nodes", 0, UINT32_MAX)) {
    to.set_draft_nodes(static_cast<uint32_t>(*nodes));
  }
  if (const auto text = fields.Text("drafter")) {  // one; several, separated by commas; or auto
    const std::vector<std::string> names = absl::StrSplit(*text, ',');
    if (names.size() == 1) {
      to.set_drafter(*text);
    } else {
      to.mutable_drafters()->Add(names.begin(), names.end());
    }
  }
  if (const auto value = fields.Number("leniency")) to.set_leniency(static_cast<float>(*value));
  if (const auto value = fields.Number("draft_min_confidence")) {
    to.set_draft_min_confidence(static_cast<float>(*value));
  }
  if (const auto value = fields.Number("draft_temperature")) {
    to.set_draft_temperature(static_cast<float>(*value));
  }
}

}  // namespace

void ReadTandemFields(Fields& fields, v1::GenerateRequest& to, absl::Duration& timeout) {
  ReadSpeculation(fields, *to.mutable_speculation());
  if (const auto value = fields.Unsigned("priority", 0, UINT32_MAX)) {
    to.set_priority(static_cast<uint32_t>(*value));
  }
  to.set_cache_scope(fields.Text("cache_scope").value_or(""));
  if (const auto value = fields.Unsigned("first_sample", 0, UINT32_MAX)) {
    to.set_first_sample(static_cast<uint32_t>(*value));
  }
  if (const auto ids = fields.Ids("output_prefix_ids")) {
    to.mutable_output_prefix_ids()->Add(ids->begin(), ids->end());
  }
  if (const auto ids = fields.Ids("banned_token_ids")) {
    to.mutable_sampling()->mutable_banned_token_ids()->Add(ids->begin(), ids->end());
  }
  to.set_text_runs(fields.Bool("text_runs").value_or(false));
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
  ReadSampling(fields, *to.wire.mutable_sampling());
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
