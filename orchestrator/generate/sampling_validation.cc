#include "orchestrator/generate/sampling_validation.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/status_macros.h"
#include "common/messages/request_options.h"
#include "common/messages/sampling_options.h"
#include "orchestrator/generate/invalid.h"

namespace tandem::orchestrator {
namespace {

// The ids that end the text, each once. min_tokens bans exactly these.
absl::Status FillEndTokens(const v1::StopRules& rules, const ModelFacts& model,
                           std::vector<uint32_t>& to) {
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
  const v1::SamplingOptions defaults = messages::ToWire(model.default_sampling);
  if (absl::Status good = messages::CheckRanges(defaults, "sampling"); !good.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the model's default sampling is not valid: ", good.message()));
  }
  to.stop_strings.assign(request.stop().strings().begin(), request.stop().strings().end());
  to.sampling = messages::FromWire(request.sampling(), model.default_sampling);
  to.sampling.stop_token_ids.clear();
  TANDEM_RETURN_IF_ERROR(FillEndTokens(request.stop(), model, to.sampling.stop_token_ids));
  absl::Status valid = sampling::Validate(to.sampling, model.vocabulary_size);
  return valid.ok() ? valid : Invalid("sampling.", valid.message());
}

}  // namespace tandem::orchestrator
