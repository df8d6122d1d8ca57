#include "common/messages/logprobs.h"

namespace tandem::messages {

v1::TopLogprobs ToWire(absl::Span<const sampling::TokenLogprob> top) {
  v1::TopLogprobs wire;
  for (const sampling::TokenLogprob& entry : top) {
    v1::TokenLogprob& token = *wire.add_tokens();
    token.set_token(entry.token);
    token.set_logprob(entry.logprob);
  }
  return wire;
}

internal::v1::NodeLogprobs ToWire(const sampling::NodeLogprobs& node) {
  internal::v1::NodeLogprobs wire;
  if (node.candidate.has_value()) wire.set_candidate(*node.candidate);
  if (node.next_token.has_value()) wire.set_next_token(*node.next_token);
  if (!node.top.empty()) *wire.mutable_top() = ToWire(node.top);
  return wire;
}

sampling::NodeLogprobs FromWire(const internal::v1::NodeLogprobs& wire) {
  sampling::NodeLogprobs node;
  if (wire.has_candidate()) node.candidate = wire.candidate();
  if (wire.has_next_token()) node.next_token = wire.next_token();
  node.top.reserve(wire.top().tokens_size());
  for (const v1::TokenLogprob& token : wire.top().tokens()) {
    node.top.push_back({token.token(), token.logprob()});
  }
  return node;
}

}  // namespace tandem::messages
