#include "common/speculation/sequence_options.h"

#include <optional>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/acceptance/tree.h"
#include "common/messages/request_options.h"
#include "common/messages/sampling_options.h"

namespace tandem::speculation {
namespace {

// At temperature 0 every rule but lenient is greedy.
std::variant<acceptance::Rule, messages::Refusal> CheckRule(v1::Rule rule, bool greedy) {
  if (rule == v1::RULE_UNSPECIFIED) {
    return messages::Invalid("options.rule",
                             "RULE_UNSPECIFIED comes from a client only: name the rule in force");
  }
  const std::optional<acceptance::Rule> known = messages::FromWire(rule);
  if (!known.has_value()) {
    return messages::Invalid("options.rule",
                             absl::StrCat("rule ", static_cast<int>(rule), " is not known"));
  }
  if (*known == acceptance::Rule::kGreedy && !greedy) {
    return messages::Invalid("options.rule", "RULE_GREEDY needs temperature 0");
  }
  if (greedy && *known != acceptance::Rule::kLenient) return acceptance::Rule::kGreedy;
  return *known;
}

// `field` has the value of a request's option.
std::optional<messages::Refusal> CheckRange(absl::string_view field, absl::string_view option,
                                            double value) {
  const std::string problem = messages::RangeProblem(messages::OptionAt(option), value);
  if (problem.empty()) return std::nullopt;
  return messages::Invalid(absl::StrCat("options.", field), absl::StrCat(field, " ", problem));
}

std::optional<messages::Refusal> CheckRanges(const internal::v1::SequenceOptions& options) {
  const std::tuple<const char*, const char*, double> values[] = {
      {"cache_scope", "cache_scope", options.cache_scope().size()},
      {"logprobs.top", "logprobs.top", options.logprobs().top()},
      {"max_nodes", "speculation.draft_nodes", options.max_nodes()},
      {"sample_index", "first_sample", options.sample_index()},
      {"priority", "priority", options.priority()},
      {"leniency", "speculation.leniency", options.has_leniency() ? options.leniency() : 1}};
  for (const auto& [field, option, value] : values) {
    if (auto refusal = CheckRange(field, option, value)) return refusal;
  }
  return std::nullopt;
}

std::optional<messages::Refusal> CheckTogether(const internal::v1::SequenceOptions& options,
                                               acceptance::Rule rule) {
  if (options.has_leniency() != (options.rule() == v1::RULE_LENIENT)) {
    return messages::Invalid("options.leniency", "it comes with RULE_LENIENT, and only then");
  }
  if (options.logprobs().prompt()) {
    return messages::Invalid(
        "options.logprobs.prompt",
        "it comes from a client only: a Step asks for them with `prompt_logprobs`");
  }
  if (options.max_nodes() > 0 && !acceptance::HasTrees(rule)) {
    return messages::Invalid("options.max_nodes",
                             absl::StrCat("rule ", acceptance::Name(rule),
                                          " has no trees: greedy and coupled have; send 0"));
  }
  if (options.prompt_tokens() > options.max_length()) {
    return messages::Invalid("options.prompt_tokens",
                             absl::StrCat(options.prompt_tokens(), " is above options.max_length, ",
                                          options.max_length()));
  }
  return std::nullopt;
}

// `message` begins with the parameter's name, as SamplingOptions spells it.
messages::Refusal RefuseSampling(absl::string_view message) {
  const std::string name(message.substr(0, message.find(' ')));
  const bool beside = absl::StartsWith(name, "stop_token_ids");  // not of SamplingOptions
  return messages::Invalid(absl::StrCat(beside ? "options." : "options.sampling.", name),
                           std::string(message));
}

}  // namespace

internal::v1::SequenceOptions ToWire(const SequenceSettings& settings) {
  internal::v1::SequenceOptions wire;
  *wire.mutable_sampling() = messages::ToWire(settings.sampling);
  wire.set_seed(settings.seed);
  wire.set_sample_index(settings.sample_index);
  wire.set_prompt_tokens(settings.prompt_tokens);
  wire.set_max_length(settings.max_length);
  wire.set_rule(messages::ToWire(settings.rule));
  wire.set_priority(settings.priority);
  if (settings.leniency.has_value()) wire.set_leniency(static_cast<float>(*settings.leniency));
  wire.mutable_stop_token_ids()->Add(settings.sampling.stop_token_ids.begin(),
                                     settings.sampling.stop_token_ids.end());
  wire.set_cache_scope(settings.cache_scope);
  if (settings.logprobs.has_value()) {
    *wire.mutable_logprobs() = messages::ToWire(*settings.logprobs);
  }
  wire.set_max_nodes(settings.max_nodes);
  return wire;
}

std::variant<SequenceSettings, messages::Refusal> CheckSequenceOptions(
    const internal::v1::SequenceOptions& options, uint32_t context_length,
    uint32_t vocabulary_size) {
  if (absl::Status status = messages::CheckRanges(options.sampling(), "sampling"); !status.ok()) {
    return RefuseSampling(absl::StripPrefix(status.message(), "sampling."));
  }
  SequenceSettings settings;
  settings.sampling = messages::FromWire(options.sampling());
  settings.sampling.stop_token_ids.assign(options.stop_token_ids().begin(),
                                          options.stop_token_ids().end());
  if (absl::Status status = sampling::Validate(settings.sampling, vocabulary_size); !status.ok()) {
    return RefuseSampling(status.message());
  }
  if (auto refusal = CheckRanges(options)) return *std::move(refusal);
  if (options.max_length() < 1 || options.max_length() > context_length) {
    return messages::Invalid("options.max_length",
                             absl::StrCat(options.max_length(), " is outside 1 to ", context_length,
                                          ", the context length"));
  }
  auto rule = CheckRule(options.rule(), settings.sampling.greedy());
  if (auto* refusal = std::get_if<messages::Refusal>(&rule)) return *refusal;
  settings.rule = std::get<acceptance::Rule>(rule);
  if (auto refusal = CheckTogether(options, settings.rule)) return *std::move(refusal);
  if (options.has_leniency()) settings.leniency = options.leniency();
  if (options.has_logprobs()) settings.logprobs = messages::FromWire(options.logprobs());
  settings.seed = options.seed();
  settings.sample_index = options.sample_index();
  settings.prompt_tokens = options.prompt_tokens();
  settings.max_length = options.max_length();
  settings.priority = options.priority();
  settings.cache_scope = options.cache_scope();
  settings.max_nodes = options.max_nodes();
  return settings;
}

}  // namespace tandem::speculation
