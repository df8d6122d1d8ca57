#include "orchestrator/verify/prompt_logprobs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "orchestrator/accept/verdict_logprobs.h"

namespace tandem::orchestrator {

bool PromptLogprobsIntake::Wanted(uint32_t keep, uint32_t end) const {
  return request_.prompt_logprobs() && keep <= next_ && next_ < request_->prompt_tokens() &&
         next_ < end;
}

absl::Status PromptLogprobsIntake::Add(uint32_t keep, uint32_t end,
                                       std::vector<sampling::NodeLogprobs> nodes,
                                       uint32_t vocabulary_size) {
  const uint32_t first = std::max(keep, 1u);  // the position of nodes[0]
  if (nodes.size() != end - first) {
    return absl::InvalidArgumentError(
        absl::StrCat("log probabilities of ", nodes.size(), " prompt tokens for ", end - first));
  }
  TANDEM_RETURN_IF_ERROR(CheckPromptLogprobs(nodes, request_->logprobs->top, vocabulary_size));
  if (collected_.ids.empty()) collected_.first_position = next_;
  for (; next_ < std::min(end, request_->prompt_tokens()); ++next_) {
    sampling::NodeLogprobs& node = nodes[next_ - first];
    collected_.ids.push_back(request_->prompt[next_]);
    collected_.logprobs.push_back({*node.candidate, std::move(node.top)});
  }
  return absl::OkStatus();
}

std::optional<PromptLogprobs> PromptLogprobsIntake::Collected() {
  if (collected_.ids.empty()) return std::nullopt;
  return std::exchange(collected_, {});
}

}  // namespace tandem::orchestrator
