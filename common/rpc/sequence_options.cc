#include "common/rpc/sequence_options.h"

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tandem::rpc {
namespace {

std::optional<Refusal> NotServed(bool used, const char* field) {
  if (!used) return std::nullopt;
  return Invalid(field, absl::StrCat(field, " is not served yet: leave it out"));
}

std::optional<Refusal> RefuseUnserved(const v1::SequenceOptions& options) {
  const v1::SamplingOptions& sampling = options.sampling();
  // NaN is "used" too, hence != instead of >.
  for (const auto& refusal :
       {NotServed(sampling.min_p() != 0, "options.sampling.min_p"),
        NotServed(sampling.logit_bias_size() > 0, "options.sampling.logit_bias"),
        NotServed(sampling.banned_tokens_size() > 0, "options.sampling.banned_tokens"),
        NotServed(sampling.minimum_tokens() > 0, "options.sampling.minimum_tokens"),
        NotServed(sampling.repetition_penalty() != 0 && sampling.repetition_penalty() != 1,
                  "options.sampling.repetition_penalty"),
        NotServed(sampling.presence_penalty() != 0, "options.sampling.presence_penalty"),
        NotServed(sampling.frequency_penalty() != 0, "options.sampling.frequency_penalty"),
        NotServed(!options.cache_scope().empty(), "options.cache_scope")}) {
    if (refusal.has_value()) return refusal;
  }
  return std::nullopt;
}

std::variant<acceptance::Rule, Refusal> CheckRule(v1::Rule rule, bool greedy) {
  switch (rule) {
    case v1::RULE_UNSPECIFIED:
    case v1::RULE_SPECULATIVE:
      return greedy ? acceptance::Rule::kGreedy : acceptance::Rule::kSpeculative;
    case v1::RULE_GREEDY:
      if (!greedy) {
        return Invalid("options.rule",
                       "RULE_GREEDY needs temperature 0; above it use RULE_SPECULATIVE");
      }
      return acceptance::Rule::kGreedy;
    default:
      return Invalid(
          "options.rule",
          absl::StrCat(v1::Rule_IsValid(rule) ? v1::Rule_Name(rule) : absl::StrCat("rule ", rule),
                       " is not served: RULE_GREEDY and RULE_SPECULATIVE are"));
  }
}

// Names the parameter that is out of its range.
std::string SamplingField(const sampling::SamplingParameters& parameters) {
  sampling::SamplingParameters only_temperature;
  only_temperature.temperature = parameters.temperature;
  return sampling::Validate(only_temperature).ok() ? "options.sampling.top_p"
                                                   : "options.sampling.temperature";
}

}  // namespace

std::variant<SequenceSettings, Refusal> CheckSequenceOptions(const v1::SequenceOptions& options,
                                                             uint32_t context_length) {
  if (std::optional<Refusal> refusal = RefuseUnserved(options)) return *refusal;
  SequenceSettings settings;
  const v1::SamplingOptions& sampling = options.sampling();
  if (sampling.has_temperature()) settings.sampling.temperature = sampling.temperature();
  settings.sampling.top_k = sampling.top_k();
  if (sampling.has_top_p()) settings.sampling.top_p = sampling.top_p();
  if (absl::Status status = sampling::Validate(settings.sampling); !status.ok()) {
    return Invalid(SamplingField(settings.sampling), std::string(status.message()));
  }
  auto rule = CheckRule(options.rule(), settings.sampling.greedy());
  if (auto* refusal = std::get_if<Refusal>(&rule)) return *refusal;
  settings.rule = std::get<acceptance::Rule>(rule);
  settings.seed = options.seed();
  settings.sample_index = options.sample_index();
  if (settings.sample_index >= 65536) {
    return Invalid("options.sample_index",
                   absl::StrCat(settings.sample_index, " is outside 0 to 65535"));
  }
  settings.most_tokens = options.most_tokens();
  if (settings.most_tokens < 1 || settings.most_tokens > context_length) {
    return Invalid("options.most_tokens", absl::StrCat(settings.most_tokens, " is outside 1 to ",
                                                       context_length, ", the context length"));
  }
  settings.priority = options.priority();
  if (settings.priority > kMostPriority) {
    return Invalid("options.priority",
                   absl::StrCat(settings.priority, " is outside 0 to ", kMostPriority));
  }
  settings.prompt_tokens = options.prompt_tokens();
  if (settings.prompt_tokens > settings.most_tokens) {
    return Invalid("options.prompt_tokens",
                   absl::StrCat(settings.prompt_tokens, " is above options.most_tokens, ",
                                settings.most_tokens));
  }
  return settings;
}

}  // namespace tandem::rpc
