// Limits of the wire that both sides keep.
#pragma once

namespace tandem::messages {

inline constexpr int kMaxMessageBytes = 1 << 20;  // of one message, both ways, at all services

// The most prefix.tokens of a Step that asks for their log probabilities (Step.prompt_logprobs).
// With the most alternatives each, they stay well below kMaxMessageBytes.
inline constexpr int kMaxPromptLogprobTokens = 1024;

}  // namespace tandem::messages
