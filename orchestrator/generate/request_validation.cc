#include "orchestrator/generate/request_validation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/messages/request_options.h"
#include "common/messages/sampling_options.h"
#include "orchestrator/generate/invalid.h"
#include "orchestrator/generate/prompt_validation.h"
#include "orchestrator/generate/sampling_validation.h"
#include "orchestrator/generate/speculation_validation.h"

namespace tandem::orchestrator {
namespace {

absl::Status CheckServed(const v1::GenerateRequest& request) {
  if (!request.has_structured()) return absl::OkStatus();
  absl::string_view kind = "structured";
  switch (request.structured().kind_case()) {
    case v1::StructuredOutput::kJsonSchema:
      kind = "json_schema";
      break;
    case v1::StructuredOutput::kGrammar:
      kind = "grammar";
      break;
    case v1::StructuredOutput::kRegex:
      kind = "regex";
      break;
    case v1::StructuredOutput::kJsonObject:
      kind = "json_object";
      break;
    case v1::StructuredOutput::KIND_NOT_SET:
      break;
  }
  return Invalid("constrained output (", kind,
                 ") is not served; leave structured out, and check the text yourself");
}

absl::Status FillLength(const v1::GenerateRequest& request, const ModelFacts& model,
                        GenerationRequest& to) {
  const uint32_t room = model.text_length() - to.prompt_tokens();
  const uint32_t default_tokens =
      model.default_max_tokens == 0 ? room : std::min(room, model.default_max_tokens);
  if (request.max_tokens() > room && !request.fit_max_tokens()) {
    return ContextExceeded("max_tokens is ", request.max_tokens(), ", and after a prompt of ",
                           to.prompt_tokens(), " tokens at most ", room,
                           " can follow: ", model.LengthWords());
  }
  to.max_tokens = request.max_tokens() == 0 ? default_tokens : std::min(room, request.max_tokens());
  if (to.sampling.min_tokens > to.max_tokens) {
    return Invalid("sampling.min_tokens is ", to.sampling.min_tokens,
                   "; it must be 0 to max_tokens, ", to.max_tokens);
  }
  to.output_prefix.assign(request.output_prefix_ids().begin(), request.output_prefix_ids().end());
  TANDEM_RETURN_IF_ERROR(CheckIds("output_prefix_ids", to.output_prefix, model.vocabulary_size));
  if (to.output_prefix.size() >= to.max_tokens) {
    return Invalid("output_prefix_ids has ", to.output_prefix.size(),
                   " ids; there must be fewer than max_tokens, ", to.max_tokens);
  }
  return absl::OkStatus();
}

}  // namespace

std::string ModelFacts::LengthWords() const {
  std::string words = ContextWords(text_length());
  if (text_length() == context_length) return words;
  return absl::StrCat(words, " here, the room of a target, all its sequences together (its own is ",
                      context_length, ")");
}

absl::StatusOr<GenerationRequest> ValidateRequest(const v1::GenerateRequest& request,
                                                  const ModelFacts& model) {
  GenerationRequest valid;
  TANDEM_RETURN_IF_ERROR(messages::CheckOptions(request));
  TANDEM_RETURN_IF_ERROR(CheckServed(request));
  TANDEM_RETURN_IF_ERROR(FillSampling(request, model, valid));
  TANDEM_RETURN_IF_ERROR(FillSpeculation(request, model, valid));
  TANDEM_RETURN_IF_ERROR(FillPrompt(request, model, valid.prompt));
  TANDEM_RETURN_IF_ERROR(FillLength(request, model, valid));
  if (request.has_logprobs()) valid.logprobs = messages::FromWire(request.logprobs());
  valid.prompt_logprobs = request.logprobs().prompt();
  valid.samples = std::max(1u, request.samples());
  valid.sample_index = request.first_sample();
  valid.seed = request.seed();
  valid.round_records = request.round_records();
  valid.token_bytes = request.token_bytes();
  valid.text_runs = request.text_runs();
  valid.priority = request.priority();
  valid.cache_scope = request.cache_scope();
  return valid;
}

}  // namespace tandem::orchestrator
