#include "target_service/row_logprobs.h"

#include <cmath>

namespace tandem::target_service {

std::optional<RowLogprobs> TakeLogprobs(const sampling::Logprobs& logprobs,
                                        std::optional<uint32_t> candidate,
                                        std::optional<uint32_t> next_token, uint32_t top) {
  if (std::isnan(logprobs(0))) return std::nullopt;
  RowLogprobs row;
  if (candidate.has_value()) row.candidate = logprobs(*candidate);
  if (next_token.has_value()) row.next_token = logprobs(*next_token);
  if (top > 0) row.top = logprobs.Top(top);
  return row;
}

v1::NodeLogprobs ToWire(const RowLogprobs& logprobs) {
  v1::NodeLogprobs wire;
  if (logprobs.candidate.has_value()) wire.set_candidate(*logprobs.candidate);
  if (logprobs.next_token.has_value()) wire.set_next_token(*logprobs.next_token);
  for (const sampling::TokenLogprob& entry : logprobs.top) {
    v1::TokenLogprob& sent = *wire.mutable_top()->add_tokens();
    sent.set_token(entry.token);
    sent.set_logprob(entry.logprob);
  }
  return wire;
}

}  // namespace tandem::target_service
