#include "orchestrator/generate/request_validation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/speculation/cache_scope.h"
#include "common/speculation/sequence_options.h"
#include "orchestrator/generate/invalid.h"
#include "orchestrator/generate/prompt_validation.h"
#include "orchestrator/generate/sampling_validation.h"
#include "orchestrator/generate/speculation_validation.h"

namespace tandem::orchestrator {
namespace {

constexpr uint32_t kSampleIndices = 65536;

absl::Status CheckServed(const v1::GenerateRequest& request) {
  TANDEM_RETURN_IF_ERROR(speculation::CheckCacheScope("cache_scope", request.cache_scope()));
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

absl::Status FillSamples(const v1::GenerateRequest& request, GenerationRequest& to) {
  if (request.samples() > kMaxSamples) {
    return Invalid("samples is ", request.samples(), "; it must be 0 to ", kMaxSamples);
  }
  to.samples = std::max(1u, request.samples());
  if (uint64_t{request.first_sample()} + to.samples > kSampleIndices) {
    return Invalid("first_sample is ", request.first_sample(), "; with ", to.samples,
                   " samples it must be 0 to ", kSampleIndices - to.samples);
  }
  to.sample_index = request.first_sample();
  if (to.samples > 1 && !to.output_prefix.empty()) {
    return Invalid("output_prefix_ids has ", to.output_prefix.size(), " ids with samples ",
                   to.samples,
                   "; it resumes one text: ask for each sample by itself, with samples 1 and its "
                   "own first_sample");
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
  TANDEM_RETURN_IF_ERROR(CheckServed(request));
  TANDEM_RETURN_IF_ERROR(FillSampling(request, model, valid));
  TANDEM_RETURN_IF_ERROR(FillLogprobs(request, valid));
  TANDEM_RETURN_IF_ERROR(FillSpeculation(request, model, valid));
  TANDEM_RETURN_IF_ERROR(FillPrompt(request, model, valid.prompt));
  TANDEM_RETURN_IF_ERROR(FillLength(request, model, valid));
  TANDEM_RETURN_IF_ERROR(FillSamples(request, valid));
  valid.seed = request.seed();
  if (request.priority() > speculation::kMaxPriority) {
    return Invalid("priority is ", request.priority(), "; it must be 0 to ",
                   speculation::kMaxPriority);
  }
  valid.round_records = request.round_records();
  valid.token_bytes = request.token_bytes();
  valid.text_runs = request.text_runs();
  valid.priority = request.priority();
  valid.cache_scope = request.cache_scope();
  return valid;
}

}  // namespace tandem::orchestrator
