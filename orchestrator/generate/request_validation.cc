#include "orchestrator/generate/request_validation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/config/status_macros.h"
#include "common/rpc/sequence_options.h"
#include "orchestrator/draft/length/policy.h"

namespace tandem::orchestrator {
namespace {

constexpr int kMostStopStrings = 16;
constexpr size_t kMostStopBytes = 1024;
constexpr int kMostStopTokens = 64;
constexpr absl::string_view kDrafters[] = {"model", "prompt-lookup", "random"};

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status NotServed(absl::string_view field, absl::string_view leave) {
  return Invalid(field, " is not served yet: ", leave);
}

absl::Status CheckIds(absl::string_view field, absl::Span<const uint32_t> ids, uint32_t limit) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < limit) continue;
    return Invalid(field, "[", i, "] is ", ids[i], "; it must be below the vocabulary size, ",
                   limit);
  }
  return absl::OkStatus();
}

absl::Status CheckNotServed(const v1::GenerateRequest& request) {
  if (!request.cache_scope().empty()) return NotServed("cache_scope", "leave it empty");
  if (request.samples() > 1) return NotServed("samples above 1", "ask again for another one");
  if (request.has_logprobs()) return NotServed("logprobs", "leave it out");
  const v1::SamplingOptions& sampling = request.sampling();
  if (sampling.min_p() != 0) return NotServed("sampling.min_p", "leave it 0");
  if (sampling.logit_bias_size() > 0) return NotServed("sampling.logit_bias", "leave it empty");
  if (sampling.banned_tokens_size() > 0) {
    return NotServed("sampling.banned_tokens", "leave it empty");
  }
  if (sampling.minimum_tokens() != 0) return NotServed("sampling.minimum_tokens", "leave it 0");
  if (sampling.repetition_penalty() != 0 && sampling.repetition_penalty() != 1) {
    return NotServed("sampling.repetition_penalty", "leave it 0 or 1");
  }
  if (sampling.presence_penalty() != 0) return NotServed("sampling.presence_penalty", "leave it 0");
  if (sampling.frequency_penalty() != 0) {
    return NotServed("sampling.frequency_penalty", "leave it 0");
  }
  if (request.speculation().has_leniency())
    return NotServed("speculation.leniency", "leave it out");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint32_t>> TakePrompt(const v1::GenerateRequest& request,
                                                 const ModelFacts& model) {
  std::vector<uint32_t> prompt;
  switch (request.prompt_case()) {
    case v1::GenerateRequest::PROMPT_NOT_SET:
      return Invalid("prompt is missing: give text or ids");
    case v1::GenerateRequest::kText: {
      if (request.text().empty()) return Invalid("text is empty: a prompt has at least one byte");
      absl::StatusOr<std::vector<uint32_t>> ids = model.encode(request.text());
      if (!ids.ok()) return Invalid("text: ", ids.status().message());
      prompt = *std::move(ids);
      if (prompt.empty()) return Invalid("text has no tokens in the model's vocabulary");
      break;
    }
    case v1::GenerateRequest::kIds:
      prompt.assign(request.ids().ids().begin(), request.ids().ids().end());
      if (prompt.empty()) return Invalid("ids is empty: a prompt has at least one token");
      TANDEM_RETURN_IF_ERROR(CheckIds("ids.ids", prompt, model.vocabulary_size));
      break;
  }
  if (prompt.size() >= model.context_length) {
    return Invalid("the prompt has ", prompt.size(), " tokens, the model's context ",
                   model.context_length, ": there must be room for at least one more");
  }
  return prompt;
}

absl::Status TakeSampling(const v1::SamplingOptions& options, sampling::SamplingParameters& to) {
  if (options.has_temperature()) to.temperature = options.temperature();
  to.top_k = options.top_k();
  if (options.has_top_p()) to.top_p = options.top_p();
  absl::Status valid = sampling::Validate(to);
  return valid.ok() ? valid : Invalid("sampling: ", valid.message());
}

absl::Status TakeSpeculation(const v1::SpeculationOptions& options, GenerationRequest& to) {
  const bool greedy = to.sampling.greedy();
  switch (options.rule()) {
    case v1::RULE_UNSPECIFIED:
    case v1::RULE_SPECULATIVE:
      to.rule = greedy ? acceptance::Rule::kGreedy : acceptance::Rule::kSpeculative;
      break;
    case v1::RULE_GREEDY:
      if (!greedy) {
        return Invalid("speculation.rule is RULE_GREEDY at temperature ", to.sampling.temperature,
                       "; it needs temperature 0");
      }
      to.rule = acceptance::Rule::kGreedy;
      break;
    case v1::RULE_BLOCK:
    case v1::RULE_COUPLED:
    case v1::RULE_LENIENT:
      return NotServed(absl::StrCat("speculation.rule ", v1::Rule_Name(options.rule())),
                       "take RULE_GREEDY or RULE_SPECULATIVE");
    default:
      return Invalid("speculation.rule is ", static_cast<int>(options.rule()),
                     ", which is not known");
  }
  if (options.draft_tokens_case() == v1::SpeculationOptions::kFixed) {
    if (options.fixed() > kMostDraftTokens) {
      return Invalid("speculation.fixed is ", options.fixed(), "; it must be 0 to ",
                     kMostDraftTokens);
    }
    to.draft_tokens = options.fixed();
  } else if (options.draft_tokens_case() == v1::SpeculationOptions::kAuto && !options.auto_()) {
    return Invalid("speculation.auto is false; give speculation.fixed, 0 for no draft");
  }
  to.drafter = options.drafter();
  if (!to.drafter.empty() &&
      std::find(std::begin(kDrafters), std::end(kDrafters), to.drafter) == std::end(kDrafters)) {
    return Invalid("speculation.drafter is \"", to.drafter,
                   "\"; it must be model, prompt-lookup, random, or empty");
  }
  return absl::OkStatus();
}

absl::Status TakeStops(const v1::StopRules& rules, const ModelFacts& model, GenerationRequest& to) {
  if (rules.strings_size() > kMostStopStrings) {
    return Invalid("stop.strings has ", rules.strings_size(), " strings; at most ",
                   kMostStopStrings);
  }
  for (int i = 0; i < rules.strings_size(); ++i) {
    const size_t bytes = rules.strings(i).size();
    if (bytes >= 1 && bytes <= kMostStopBytes) continue;
    return Invalid("stop.strings[", i, "] has ", bytes, " bytes; it must have 1 to ",
                   kMostStopBytes);
  }
  to.stop_strings.assign(rules.strings().begin(), rules.strings().end());
  if (rules.token_ids_size() > kMostStopTokens) {
    return Invalid("stop.token_ids has ", rules.token_ids_size(), " ids; at most ",
                   kMostStopTokens);
  }
  to.end_tokens.assign(rules.token_ids().begin(), rules.token_ids().end());
  TANDEM_RETURN_IF_ERROR(CheckIds("stop.token_ids", to.end_tokens, model.vocabulary_size));
  if (!rules.ignore_eos()) {
    to.end_tokens.insert(to.end_tokens.end(), model.eos_tokens.begin(), model.eos_tokens.end());
  }
  return absl::OkStatus();
}

absl::Status TakeLength(const v1::GenerateRequest& request, const ModelFacts& model,
                        GenerationRequest& to) {
  const uint32_t room = model.context_length - to.prompt_tokens();
  if (request.max_tokens() > room) {
    return Invalid("max_tokens is ", request.max_tokens(), "; after a prompt of ",
                   to.prompt_tokens(), " tokens the model's context of ", model.context_length,
                   " has room for 1 to ", room, " (0 = all of it)");
  }
  to.max_tokens = request.max_tokens() == 0 ? room : request.max_tokens();
  to.output_prefix.assign(request.output_prefix_ids().begin(), request.output_prefix_ids().end());
  TANDEM_RETURN_IF_ERROR(CheckIds("output_prefix_ids", to.output_prefix, model.vocabulary_size));
  if (to.output_prefix.size() >= to.max_tokens) {
    return Invalid("output_prefix_ids has ", to.output_prefix.size(),
                   " ids; there must be fewer than max_tokens, ", to.max_tokens);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GenerationRequest> ValidateRequest(const v1::GenerateRequest& request,
                                                  const ModelFacts& model) {
  GenerationRequest valid;
  TANDEM_RETURN_IF_ERROR(CheckNotServed(request));
  TANDEM_RETURN_IF_ERROR(TakeSampling(request.sampling(), valid.sampling));
  TANDEM_RETURN_IF_ERROR(TakeSpeculation(request.speculation(), valid));
  TANDEM_RETURN_IF_ERROR(TakeStops(request.stop(), model, valid));
  TANDEM_ASSIGN_OR_RETURN(valid.prompt, TakePrompt(request, model));
  TANDEM_RETURN_IF_ERROR(TakeLength(request, model, valid));
  valid.seed = request.seed();
  if (request.priority() > rpc::kMostPriority) {
    return Invalid("priority is ", request.priority(), "; it must be 0 to ", rpc::kMostPriority);
  }
  valid.priority = request.priority();
  return valid;
}

}  // namespace tandem::orchestrator
