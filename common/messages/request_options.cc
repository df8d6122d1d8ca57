#include "common/messages/request_options.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/sampling/logprobs.h"

namespace tandem::messages {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using sampling::SamplingParameters;

constexpr int kMaxStopStrings = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr double kWhole32 = UINT32_MAX;
constexpr double kListed = sampling::kMaxListedTokens;
constexpr double kPenalty = sampling::kMaxPenalty;
constexpr bool kAbove = true;  // the least itself is not in the range

// Path, range, flag, name over HTTP, the flag's help, and the parameter.
const RequestOption kOptions[] = {
    // clang-format off
    {"speculation.fixed", {0, kMaxDraftTokens}, "draft-tokens", "tandem.draft_tokens",
     "draft tokens per round: auto (--length-policy decides), or 1 to 16; 0 = no draft. Default: "
     "auto"},
    {"speculation.auto", {}, "draft-tokens", "tandem.draft_tokens"},
    {"speculation.length_policy", {}, "length-policy", "tandem.length_policy",
     "how auto chooses the draft tokens of a round: auto, by measured times, or heuristic, by "
     "what was accepted. Default: the orchestrator's"},
    {"speculation.draft_nodes", {0, 64}, "draft-nodes", "tandem.draft_nodes",
     "draft tokens of a tree per round, on paths of at most --draft-tokens; 0 = a chain. Requires "
     "rule greedy or coupled, and a drafter that makes trees. Default: chosen by "
     "--draft-tokens=auto"},
    {"speculation.draft_min_confidence", {0, 1}, "draft-min-confidence", "tandem.draft_min_confidence",
     "end a chain at the draft token where the estimated chance that all so far are accepted "
     "falls below this; 0 = never. Requires rule greedy or coupled. Default: chosen by "
     "--draft-tokens=auto"},
    {"speculation.prepare", {0, 16}, "prepare", "tandem.prepare",
     "outcomes of a round for which the draft prepares the next block while the target verifies "
     "(the maximum, with length policy auto). Requires rule greedy or coupled, and chains. "
     "Default: the orchestrator's, with --draft-tokens=auto"},
    {"speculation.drafter", {}, "drafter", "tandem.drafter",
     "a drafter that the draft service offers (see `tandem describe`): model, cascade, "
     "prompt-lookup, context-ngram, corpus-bigram, mixed, …; or several, separated by commas, or "
     "auto for all of them: each text then uses the one with the highest throughput. Default: the "
     "orchestrator's"},
    {"speculation.drafters", {}, "drafter", "tandem.drafter"},
    {"speculation.proposal", {}, "proposal", "tandem.proposal",
     "how the drafter proposes: sampled or greedy. Default: the draft service's"},
    {"speculation.draft_temperature", {0, sampling::kMaxTemperature}, "draft-temperature",
     "tandem.draft_temperature",
     "temperature of the drafter. Default: --temperature"},
    {"speculation.rule", {}, "rule", "tandem.rule",
     "rule of acceptance: greedy, speculative, block, coupled or lenient. Default: greedy at "
     "temperature 0; above it coupled with --seed, else speculative"},
    {"speculation.leniency", {0, 1, kAbove}, "leniency", "tandem.leniency",
     "with --rule=lenient: the lower, the more is accepted. The text is not exact"},
    {"sampling.temperature", {0, sampling::kMaxTemperature}, "temperature", "temperature",
     "0 = greedy. Default: the model's, or 1", &SamplingParameters::temperature},
    {"sampling.top_k", {0, kWhole32}, "top-k", "top_k",
     "keep the k most likely tokens; 0 = all", &SamplingParameters::top_k},
    {"sampling.top_p", {0, 1, kAbove}, "top-p", "top_p",
     "keep the most likely tokens that make up p; 1 = all", &SamplingParameters::top_p},
    {"sampling.min_p", {0, 1}, "min-p", "min_p",
     "keep tokens with at least this share of the largest probability; 0 = all",
     &SamplingParameters::min_p},
    {"sampling.repetition_penalty", {0, sampling::kMaxRepetitionPenalty, kAbove},
     "repetition-penalty", "repetition_penalty",
     "penalty on tokens of the prompt and the output; 1 = off",
     &SamplingParameters::repetition_penalty},
    {"sampling.presence_penalty", {-kPenalty, kPenalty}, "presence-penalty", "presence_penalty",
     "penalty on tokens of the output; 0 = off", &SamplingParameters::presence_penalty},
    {"sampling.frequency_penalty", {-kPenalty, kPenalty}, "frequency-penalty", "frequency_penalty",
     "the same, times the number of occurrences", &SamplingParameters::frequency_penalty},
    {"sampling.logit_bias", {}, "logit-bias", "logit_bias",
     "ID:BIAS[,ID:BIAS...]: added to the token's logit, -100 to 100; may be repeated"},
    {"sampling.banned_token_ids", {0, kListed}, "banned-tokens", "tandem.banned_token_ids",
     "ID[,ID...]: tokens that are never generated; may be repeated", &SamplingParameters::banned},
    {"sampling.allowed_token_ids", {0, kListed}, "allowed-tokens", "allowed_token_ids",
     "ID[,ID...]: the only tokens that may be generated; may be repeated",
     &SamplingParameters::allowed},
    {"sampling.min_tokens", {0, kWhole32}, "min-tokens", "min_tokens",
     "minimum number of output tokens", &SamplingParameters::min_tokens},
    {"seed", {0, 0x1p64}, "seed", "seed",
     "seed of all randomness. Default: random"},
    {"max_tokens", {0, kWhole32}, "max-tokens", "max_tokens"},
    {"stop.strings", {}, "stop", "stop"},
    {"stop.token_ids", {0, 64}, "stop-token", "stop_token_ids",
     "ID[,ID...]: tokens that end the text; may be repeated"},
    {"stop.ignore_eos", {}, "ignore-eos", "ignore_eos",
     "do not end the text at the model's end-of-text tokens"},
    {"samples", {0, kMaxRequestSamples}, "samples", "n"},
    {"first_sample", {0, kSampleIndices - 1}, "first-sample", "tandem.first_sample",
     "index of the first sample, which selects its noise under the seed"},
    {"logprobs.top", {0, sampling::kMaxTopLogprobs}, "logprobs", "logprobs"},
    {"output_prefix_ids", {0, 1 << 20}, "output-prefix-ids", "tandem.output_prefix_ids",
     "ID[,ID...]: resume after this output, which is not sent again and counts towards "
     "--max-tokens; use the same --seed"},
    {"cache_scope", {0, 64}, "cache-scope", "tandem.cache_scope",
     "requests of one scope share the KV cache of common prefixes; at most 64 bytes"},
    {"priority", {0, 10}, "priority", "tandem.priority",
     "0 = normal; requests of a higher priority are admitted and served first"},
    {"text_runs", {}, "", "tandem.text_runs"},
    {"user", {0, 256}, "", "user"},
    // clang-format on
};

template <typename... Parts>
absl::Status Wrong(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

struct Place {
  const FieldDescriptor* part = nullptr;  // of the request, that holds the field; null: itself
  const FieldDescriptor* field = nullptr;
};

Place LookUp(absl::string_view path) {
  Place place;
  const google::protobuf::Descriptor* message = v1::GenerateRequest::descriptor();
  for (absl::string_view name : absl::StrSplit(path, '.')) {
    place.part = std::exchange(place.field, nullptr);
    if (place.part != nullptr) message = place.part->message_type();
    place.field = message->FindFieldByName(std::string(name));
    TANDEM_CHECK(place.field != nullptr) << path << " is not a field of GenerateRequest";
  }
  return place;
}

// Every request asks for all of them several times, so each is looked up by its names once.
// `option` is one of kOptions.
const Place& PlaceOf(const RequestOption& option) {
  static const auto& places = *[] {
    auto* all = new std::array<Place, std::size(kOptions)>();
    std::transform(std::begin(kOptions), std::end(kOptions), all->begin(),
                   [](const RequestOption& one) { return LookUp(one.path); });
    return all;
  }();
  return places.at(static_cast<size_t>(&option - kOptions));
}

// The part of `request` that holds the option's field.
Message& Holder(const RequestOption& option, Message& request) {
  const FieldDescriptor* part = PlaceOf(option).part;
  return part == nullptr ? request : *request.GetReflection()->MutableMessage(&request, part);
}

// Null: it is not there.
const Message* HolderIn(const RequestOption& option, const Message& request) {
  const FieldDescriptor* part = PlaceOf(option).part;
  if (part == nullptr) return &request;
  const google::protobuf::Reflection& values = *request.GetReflection();
  return values.HasField(request, part) ? &values.GetMessage(request, part) : nullptr;
}

// "RULE_" of RULE_UNSPECIFIED.
absl::string_view PrefixOf(const EnumDescriptor& type) {
  absl::string_view name = type.value(0)->name();
  absl::ConsumeSuffix(&name, "UNSPECIFIED");
  return name;
}

std::string ShortName(const google::protobuf::EnumValueDescriptor& value) {
  return absl::AsciiStrToLower(absl::StripPrefix(value.name(), PrefixOf(*value.type())));
}

// A value of an option's choice by its full name; null: there is none. The pool of all messages
// knows those files alone that somebody has asked for.
const google::protobuf::EnumValueDescriptor* ValueNamed(absl::string_view name) {
  for (const RequestOption& option : kOptions) {
    if (option.type() != OptionType::kChoice) continue;
    const auto* value = option.field().enum_type()->FindValueByName(std::string(name));
    if (value != nullptr) return value;
  }
  return nullptr;
}

// 1048577, where a double would be written as 1.04858e+06.
std::string Text(double value) {
  const bool whole = std::abs(value) < 0x1p53 && value == std::floor(value);
  return whole ? absl::StrCat(static_cast<int64_t>(value)) : absl::StrCat(value);
}

// What RangeProblem judges. Nullopt: its form is its own, or it is not there.
std::optional<double> Measured(const RequestOption& option, const Message& message,
                               const FieldDescriptor& field) {
  const google::protobuf::Reflection& values = *message.GetReflection();
  if (option.type() == OptionType::kIds) return values.FieldSize(message, &field);
  if (field.is_repeated() || !values.HasField(message, &field)) return std::nullopt;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_FLOAT:
      return values.GetFloat(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return values.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_STRING:
      return values.GetString(message, &field).size();
    case FieldDescriptor::CPPTYPE_ENUM:
      return values.GetEnumValue(message, &field);
    default:
      return std::nullopt;
  }
}

absl::Status CheckStop(const v1::StopRules& rules) {
  if (rules.strings_size() > kMaxStopStrings) {
    return Wrong("stop.strings has ", rules.strings_size(), " strings; at most ", kMaxStopStrings);
  }
  for (int i = 0; i < rules.strings_size(); ++i) {
    const size_t bytes = rules.strings(i).size();
    if (bytes >= 1 && bytes <= kMaxStopBytes) continue;
    return Wrong("stop.strings[", i, "] has ", bytes, " bytes; it must have 1 to ", kMaxStopBytes);
  }
  return absl::OkStatus();
}

absl::Status CheckSamples(const v1::GenerateRequest& request) {
  const uint32_t samples = std::max(1u, request.samples());
  if (request.first_sample() + samples > kSampleIndices) {
    return Wrong("first_sample is ", request.first_sample(), "; with samples ", samples,
                 " it must be 0 to ", kSampleIndices - samples);
  }
  if (samples > 1 && request.output_prefix_ids_size() > 0) {
    return Wrong("output_prefix_ids has ", request.output_prefix_ids_size(), " ids with samples ",
                 samples,
                 "; it resumes one text: ask for each sample by itself, with samples 1 and its "
                 "own first_sample");
  }
  return absl::OkStatus();
}

absl::Status CheckSpeculation(const v1::GenerateRequest& request) {
  const v1::SpeculationOptions& options = request.speculation();
  const bool is_fixed = options.draft_tokens_case() == v1::SpeculationOptions::kFixed;
  const bool lenient = options.rule() == v1::RULE_LENIENT;
  if (!lenient && options.has_leniency()) {
    return Wrong("speculation.leniency is ", options.leniency(),
                 ", but speculation.rule is not RULE_LENIENT: leave it out, or take that rule");
  }
  if (lenient && !options.has_leniency()) {
    return Wrong("speculation.leniency is missing: RULE_LENIENT needs it, ",
                 OptionAt("speculation.leniency").range.ToString());
  }
  if (is_fixed && options.length_policy() != v1::LENGTH_POLICY_UNSPECIFIED) {
    return Wrong("speculation.length_policy is ", v1::LengthPolicy_Name(options.length_policy()),
                 ", but speculation.fixed is ", options.fixed(), ": leave one of them out");
  }
  if (options.draft_tokens_case() == v1::SpeculationOptions::kAuto && !options.auto_()) {
    return Wrong("speculation.auto is false; give speculation.fixed, 0 for no draft");
  }
  if (!options.drafter().empty() && options.drafters_size() > 0) {
    return Wrong("speculation.drafter is \"", options.drafter(),
                 "\", and speculation.drafters is given too: leave one of them out");
  }
  for (const char* path : {"speculation.draft_temperature", "speculation.draft_nodes",
                           "speculation.draft_min_confidence", "speculation.prepare"}) {
    const std::optional<double> value = NumberIn(OptionAt(path), request);
    const bool asks = value > 0.0 || (value == 0.0 && options.has_draft_temperature());
    if (!asks || !is_fixed || options.fixed() > 0) continue;
    return Wrong(path, " is ", *value,
                 ", but speculation.fixed is 0: there is no draft; leave one of them out");
  }
  if (options.prepare() > 0 && options.draft_nodes() > 0) {
    return Wrong("speculation.prepare is ", options.prepare(), ", and speculation.draft_nodes is ",
                 options.draft_nodes(), ": chains alone are prepared; leave one of them out");
  }
  if (options.prepare() > 0 && options.draft_min_confidence() > 0) {
    return Wrong("speculation.prepare is ", options.prepare(),
                 ", and speculation.draft_min_confidence is ", options.draft_min_confidence(),
                 ": prepared blocks have a fixed length; leave one of them out");
  }
  if (options.draft_min_confidence() > 0 && options.draft_nodes() > 0) {
    return Wrong("speculation.draft_min_confidence is ", options.draft_min_confidence(),
                 ", and speculation.draft_nodes is ", options.draft_nodes(),
                 ": it ends chains; leave one of them out");
  }
  return absl::OkStatus();
}

bool IsOfAPath(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

}  // namespace

const FieldDescriptor& RequestOption::field() const { return *PlaceOf(*this).field; }

OptionType RequestOption::type() const {
  const FieldDescriptor& its = field();
  if (its.is_repeated()) {
    return its.cpp_type() == FieldDescriptor::CPPTYPE_UINT32 ? OptionType::kIds
                                                             : OptionType::kOther;
  }
  switch (its.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return OptionType::kSwitch;
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return OptionType::kWhole;
    case FieldDescriptor::CPPTYPE_FLOAT:
      return OptionType::kReal;
    case FieldDescriptor::CPPTYPE_ENUM:
      return OptionType::kChoice;
    case FieldDescriptor::CPPTYPE_STRING:
      return OptionType::kText;
    default:
      return OptionType::kOther;
  }
}

std::vector<std::string> RequestOption::choices() const {
  std::vector<std::string> names;
  const EnumDescriptor& type = *field().enum_type();
  for (int i = 1; i < type.value_count(); ++i) names.push_back(ShortName(*type.value(i)));
  return names;
}

bool RequestOption::under(absl::string_view message) const {
  return absl::StartsWith(path, absl::StrCat(message, "."));
}

absl::Span<const RequestOption> RequestOptions() { return kOptions; }

const RequestOption& OptionAt(absl::string_view path) {
  const auto* option =
      std::find_if(std::begin(kOptions), std::end(kOptions),
                   [&](const RequestOption& option) { return option.path == path; });
  TANDEM_CHECK(option != std::end(kOptions)) << path;
  return *option;
}

void SetOption(const RequestOption& option, const OptionValue& value,
               v1::GenerateRequest& request) {
  const FieldDescriptor* field = &option.field();
  Message* message = &Holder(option, request);
  const google::protobuf::Reflection& values = *message->GetReflection();
  switch (option.type()) {
    case OptionType::kSwitch:
      return values.SetBool(message, field, std::get<bool>(value));
    case OptionType::kWhole:
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
        return values.SetUInt64(message, field, std::get<uint64_t>(value));
      }
      return values.SetUInt32(message, field, static_cast<uint32_t>(std::get<uint64_t>(value)));
    case OptionType::kReal:
      return values.SetFloat(message, field, static_cast<float>(std::get<double>(value)));
    case OptionType::kText:
      return values.SetString(message, field, std::get<std::string>(value));
    case OptionType::kChoice: {
      const EnumDescriptor& type = *field->enum_type();
      const auto* number = type.FindValueByName(
          absl::StrCat(PrefixOf(type), absl::AsciiStrToUpper(std::get<std::string>(value))));
      TANDEM_CHECK(number != nullptr) << option.path;
      return values.SetEnum(message, field, number);
    }
    case OptionType::kIds:
      for (uint32_t id : std::get<std::vector<uint32_t>>(value))
        values.AddUInt32(message, field, id);
      return;
    case OptionType::kOther:
      TANDEM_CHECK(false) << option.path << " has a form of its own";
  }
}

std::optional<double> NumberIn(const RequestOption& option, const v1::GenerateRequest& request) {
  if (option.type() != OptionType::kReal && option.type() != OptionType::kWhole)
    return std::nullopt;
  const Message* holder = HolderIn(option, request);
  return holder == nullptr ? std::nullopt : Measured(option, *holder, option.field());
}

absl::Status CheckRanges(const Message& message, absl::string_view part) {
  for (const RequestOption& option : kOptions) {
    if (!part.empty() && !option.under(part)) continue;
    const Message* holder = part.empty() ? HolderIn(option, message) : &message;
    if (holder == nullptr) continue;
    const std::optional<double> measured = Measured(option, *holder, option.field());
    const std::string problem = measured.has_value() ? RangeProblem(option, *measured) : "";
    if (!problem.empty()) return Wrong(option.path, " ", problem);
  }
  return absl::OkStatus();
}

std::string RangeProblem(const RequestOption& option, double value) {
  switch (option.type()) {
    case OptionType::kIds:
    case OptionType::kText:
      if (value <= option.range.max || option.range.max == 0) return "";
      return absl::StrCat("has ", Text(value),
                          option.type() == OptionType::kIds ? " entries" : " bytes", "; at most ",
                          Text(option.range.max));
    case OptionType::kChoice: {
      const int count = option.field().enum_type()->value_count();
      if (value >= 0 && value < count) return "";
      return absl::StrCat("is ", value, ", which is unknown; it must be 0 to ", count - 1);
    }
    default:
      if (option.range.Contains(value)) return "";
      return absl::StrCat("is ", Text(value), "; it must be ", option.range.ToString());
  }
}

absl::Status CheckOptions(const v1::GenerateRequest& request) {
  TANDEM_RETURN_IF_ERROR(CheckRanges(request));
  TANDEM_RETURN_IF_ERROR(CheckStop(request.stop()));
  TANDEM_RETURN_IF_ERROR(CheckSamples(request));
  return CheckSpeculation(request);
}

std::string InWordsOf(absl::string_view message,
                      absl::FunctionRef<std::string(const RequestOption& option)> name) {
  std::string text;
  for (size_t at = 0; at < message.size();) {
    size_t end = at;
    while (end < message.size() && IsOfAPath(message[end])) ++end;
    absl::string_view word = message.substr(at, end - at);
    absl::ConsumeSuffix(&word, ".");  // of a sentence
    if (word.empty()) {
      text += message[at++];
      continue;
    }
    at += word.size();
    // A word that is also one of the language is a name in two places only.
    const bool is_name = absl::StrContains(word, '.') || absl::StrContains(word, '_') ||
                         text.empty() || absl::EndsWith(text, " with ");
    const auto* option =
        std::find_if(std::begin(kOptions), std::end(kOptions),
                     [&](const RequestOption& option) { return option.path == word; });
    if (is_name && option != std::end(kOptions)) {
      absl::StrAppend(&text, name(*option));
    } else if (const auto* value = ValueNamed(word)) {
      absl::StrAppend(&text, ShortName(*value));
    } else {
      absl::StrAppend(&text, word);
    }
  }
  return text;
}

}  // namespace tandem::messages
