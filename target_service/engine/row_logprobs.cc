#include "target_service/engine/row_logprobs.h"

#include <cmath>

namespace tandem::target_service {

std::optional<sampling::NodeLogprobs> NodeLogprobsOf(const sampling::Logprobs& logprobs,
                                                     std::optional<uint32_t> candidate,
                                                     std::optional<uint32_t> next_token,
                                                     uint32_t top) {
  if (std::isnan(logprobs(0))) return std::nullopt;
  sampling::NodeLogprobs row;
  if (candidate.has_value()) row.candidate = logprobs(*candidate);
  if (next_token.has_value()) row.next_token = logprobs(*next_token);
  if (top > 0) row.top = logprobs.Top(top);
  return row;
}

}  // namespace tandem::target_service
