#include "orchestrator/generate/sampling_validation.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/status_macros.h"
#include "common/messages/sampling_options.h"
#include "orchestrator/generate/invalid.h"

namespace tandem::orchestrator {
namespace {

constexpr int kMaxStopStrings = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr int kMaxStopTokens = 64;

absl::Status FillStopStrings(const v1::StopRules& rules, GenerationRequest& to) {
  if (rules.strings_size() > kMaxStopStrings) {
    return Invalid("stop.strings has ", rules.strings_size(), " strings; at most ",
                   kMaxStopStrings);
  }
  for (int i = 0; i < rules.strings_size(); ++i) {
    const size_t bytes = rules.strings(i).size();
    if (bytes >= 1 && bytes <= kMaxStopBytes) continue;
    return Invalid("stop.strings[", i, "] has ", bytes, " bytes; it must have 1 to ",
                   kMaxStopBytes);
  }
  to.stop_strings.assign(rules.strings().begin(), rules.strings().end());
  return absl::OkStatus();
}

// The ids that end the text, each once. min_tokens bans exactly these.
absl::Status FillEndTokens(const v1::StopRules& rules, const ModelFacts& model,
                           std::vector<uint32_t>& to) {
  if (rules.token_ids_size() > kMaxStopTokens) {
    return Invalid("stop.token_ids has ", rules.token_ids_size(), " ids; at most ", kMaxStopTokens);
  }
  const std::vector<uint32_t> ids(rules.token_ids().begin(), rules.token_ids().end());
  TANDEM_RETURN_IF_ERROR(CheckIds("stop.token_ids", ids, model.vocabulary_size));
  const auto add = [&to](uint32_t id) {
    if (std::find(to.begin(), to.end(), id) == to.end()) to.push_back(id);
  };
  std::for_each(ids.begin(), ids.end(), add);
  if (!rules.ignore_eos()) {
    for (uint32_t id : model.eos_token_ids) {
      if (id < model.vocabulary_size) add(id);  // one of the model's padding never comes
    }
  }
  if (to.size() > sampling::kMaxEndTokens) {
    return Invalid("stop.token_ids has ", ids.size(), " ids, with the model's own ", to.size(),
                   " end the text; at most ", sampling::kMaxEndTokens);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FillSampling(const v1::GenerateRequest& request, const ModelFacts& model,
                          GenerationRequest& to) {
  if (absl::Status good = sampling::Validate(model.default_sampling); !good.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the model's default sampling is not valid: ", good.message()));
  }
  TANDEM_RETURN_IF_ERROR(FillStopStrings(request.stop(), to));
  to.sampling = messages::FromWire(request.sampling(), model.default_sampling);
  to.sampling.stop_token_ids.clear();
  TANDEM_RETURN_IF_ERROR(FillEndTokens(request.stop(), model, to.sampling.stop_token_ids));
  absl::Status valid = sampling::Validate(to.sampling, model.vocabulary_size);
  return valid.ok() ? valid : Invalid("sampling.", valid.message());
}

absl::Status FillLogprobs(const v1::GenerateRequest& request, GenerationRequest& to) {
  if (!request.has_logprobs()) return absl::OkStatus();
  const v1::LogprobOptions& options = request.logprobs();
  if (options.top() > sampling::kMaxTopLogprobs) {
    return Invalid("logprobs.top is ", options.top(), "; it must be 0 to ",
                   sampling::kMaxTopLogprobs);
  }
  to.logprobs = messages::FromWire(options);
  to.prompt_logprobs = options.prompt();
  return absl::OkStatus();
}

}  // namespace tandem::orchestrator
