#include "common/speculation/sequence_options.h"

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/acceptance/tree.h"
#include "common/messages/sampling_options.h"
#include "common/speculation/cache_scope.h"
#include "common/speculation/candidate_tree.h"

namespace tandem::speculation {
namespace {

// At temperature 0 every rule but lenient is greedy.
std::variant<acceptance::Rule, messages::Refusal> CheckRule(v1::Rule rule, bool greedy) {
  using acceptance::Rule;
  switch (rule) {
    case v1::RULE_GREEDY:
      if (greedy) return Rule::kGreedy;
      return messages::Invalid("options.rule", "RULE_GREEDY needs temperature 0");
    case v1::RULE_UNSPECIFIED:
      return messages::Invalid("options.rule",
                               "RULE_UNSPECIFIED comes from a client only: name the rule in force");
    case v1::RULE_SPECULATIVE:
      return greedy ? Rule::kGreedy : Rule::kSpeculative;
    case v1::RULE_BLOCK:
      return greedy ? Rule::kGreedy : Rule::kBlock;
    case v1::RULE_COUPLED:
      return greedy ? Rule::kGreedy : Rule::kCoupled;
    case v1::RULE_LENIENT:
      return Rule::kLenient;
    default:
      return messages::Invalid("options.rule",
                               absl::StrCat("rule ", static_cast<int>(rule), " is not known"));
  }
}

std::optional<messages::Refusal> CheckLeniency(const internal::v1::SequenceOptions& options) {
  const bool lenient = options.rule() == v1::RULE_LENIENT;
  if (options.has_leniency() != lenient) {
    return messages::Invalid("options.leniency", "it comes with RULE_LENIENT, and only then");
  }
  if (lenient && !(options.leniency() > 0 && options.leniency() <= 1)) {
    return messages::Invalid(
        "options.leniency", absl::StrCat(options.leniency(), "; it must be above 0 and at most 1"));
  }
  return std::nullopt;
}

std::optional<messages::Refusal> CheckLogprobs(const v1::LogprobOptions& options) {
  if (options.top() > sampling::kMaxTopLogprobs) {
    return messages::Invalid(
        "options.logprobs.top",
        absl::StrCat(options.top(), " is outside 0 to ", sampling::kMaxTopLogprobs));
  }
  if (options.prompt()) {
    return messages::Invalid(
        "options.logprobs.prompt",
        "it comes from a client only: a Step asks for them with `prompt_logprobs`");
  }
  return std::nullopt;
}

std::optional<messages::Refusal> CheckNodes(uint32_t max_nodes, acceptance::Rule rule) {
  if (max_nodes == 0) return std::nullopt;
  if (!acceptance::HasTrees(rule)) {
    return messages::Invalid("options.max_nodes",
                             absl::StrCat("rule ", acceptance::Name(rule),
                                          " has no trees: greedy and coupled have; send 0"));
  }
  if (max_nodes <= kMaxTreeNodes) return std::nullopt;
  return messages::Invalid("options.max_nodes",
                           absl::StrCat(max_nodes, " is outside 0 to ", kMaxTreeNodes));
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
  const std::string scope_field = "options.cache_scope";
  if (absl::Status scope = CheckCacheScope(scope_field, options.cache_scope()); !scope.ok()) {
    return messages::Invalid(scope_field, std::string(scope.message()));
  }
  SequenceSettings settings;
  settings.cache_scope = options.cache_scope();
  settings.sampling = messages::FromWire(options.sampling());
  settings.sampling.stop_token_ids.assign(options.stop_token_ids().begin(),
                                          options.stop_token_ids().end());
  if (absl::Status status = sampling::Validate(settings.sampling, vocabulary_size); !status.ok()) {
    return RefuseSampling(status.message());
  }
  if (std::optional<messages::Refusal> refusal = CheckLeniency(options)) return *std::move(refusal);
  if (options.has_leniency()) settings.leniency = options.leniency();
  if (options.has_logprobs()) {
    if (auto refusal = CheckLogprobs(options.logprobs())) return *std::move(refusal);
    settings.logprobs = messages::FromWire(options.logprobs());
  }
  auto rule = CheckRule(options.rule(), settings.sampling.greedy());
  if (auto* refusal = std::get_if<messages::Refusal>(&rule)) return *refusal;
  settings.rule = std::get<acceptance::Rule>(rule);
  if (auto refusal = CheckNodes(options.max_nodes(), settings.rule)) return *std::move(refusal);
  settings.max_nodes = options.max_nodes();
  settings.seed = options.seed();
  settings.sample_index = options.sample_index();
  if (settings.sample_index >= 65536) {
    return messages::Invalid("options.sample_index",
                             absl::StrCat(settings.sample_index, " is outside 0 to 65535"));
  }
  settings.max_length = options.max_length();
  if (settings.max_length < 1 || settings.max_length > context_length) {
    return messages::Invalid("options.max_length",
                             absl::StrCat(settings.max_length, " is outside 1 to ", context_length,
                                          ", the context length"));
  }
  settings.priority = options.priority();
  if (settings.priority > kMaxPriority) {
    return messages::Invalid("options.priority",
                             absl::StrCat(settings.priority, " is outside 0 to ", kMaxPriority));
  }
  settings.prompt_tokens = options.prompt_tokens();
  if (settings.prompt_tokens > settings.max_length) {
    return messages::Invalid("options.prompt_tokens",
                             absl::StrCat(settings.prompt_tokens, " is above options.max_length, ",
                                          settings.max_length));
  }
  return settings;
}

}  // namespace tandem::speculation
