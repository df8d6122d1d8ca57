// Limits of the wire that both sides keep.
#pragma once

namespace tandem::messages {

inline constexpr int kMaxMessageBytes = 1 << 20;  // of one message, both ways, at all services

// The most prefix.tokens of a Step that asks for their log probabilities (Step.prompt_logprobs).
// With the most alternatives each, they stay well below kMaxMessageBytes.
inline constexpr int kMaxPromptLogprobTokens = 1024;

// The most closings of a Batch. Each costs the target's device thread a look at all Steps that
// wait, so a message must not have as many as fit into it.
inline constexpr int kMaxClosings = 1024;

// The most blocks of a chained Step (Step.prepared).
inline constexpr int kMaxPreparedBlocks = 16;

// The most requests of a DraftRequest, with the first one: what one message may put into the
// draft's queue.
inline constexpr int kMaxDraftRequests = 1024;

}  // namespace tandem::messages
