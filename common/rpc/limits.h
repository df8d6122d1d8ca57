// Limits of the wire that both sides keep.
#pragma once

namespace tandem::rpc {

inline constexpr int kMostMessageBytes = 1 << 20;  // of one message, both ways, at all services

// prefix.tokens of a Step that asks for their log probabilities (Step.prompt_logprobs): so many, with the
// most alternatives each, are well below a message.
inline constexpr int kMostPromptLogprobTokens = 1024;

}  // namespace tandem::rpc
