// Replies as JSON lines for programs: one object a line, without the line break.
//
// Log probabilities are natural. The log probability of a token with probability 0 is minus
// infinity, which JSON cannot express, so it is null.
//
// With log probabilities, lists of "token_ids" have "token_texts" and "token_bytes" beside them:
// what each token stands for, as a string and as numbers. Where it is part of a character, the
// string has U+FFFD. An alternative has "text" and "bytes".
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/common/outcome.h"

namespace tandem::client {

//   {"sample_index": 0, "delta": …, "token_ids": […]}
// and, when they were asked for, "logprobs": […], "top_logprobs": [[{"token": …, "logprob": …,
// "text", "bytes"}, …], …].
std::string JsonDelta(const v1::Delta& delta);

//   {"prompt_logprobs": {"first_position": 1, "token_ids": […], "logprobs": […],
//   "top_logprobs": […]}}
std::string JsonPromptLogprobs(const v1::PromptLogprobs& prompt);

// The last object of an output says how it ended:
//   {"version": 1, "final": true, "text", "token_ids", "finish_reason", "usage": {…},
//   "speculation": {…}, "timing_ms": {…}}
// "logprobs", "top_logprobs", "prompt_logprobs" and "stop_string" are there when they have a value.
// The fields from "text" to "finish_reason" are those of sample 0. With more than one sample,
// "samples" has all of them, each with its own "speculation". "timing_ms"."stages" sums up the time
// of all rounds by stage. "trace_id" is there when the request is traced. "rounds" is there when it
// was asked for; a round is {"sample_index", "number", "began_ms", "took_ms", "stages_ms": {…},
// "draft_tokens", "accepted_tokens", "tokens", "pass_id", "pass_rows", "pass_sequences"}, with
// "cause" if it had no draft, and "draft_depth" and "node" if its draft was a tree. "seed" is a
// string if it is above 2^53.
std::string JsonFinal(const Outcome& outcome);

// The output of a request that began and failed, for resuming it:
//   {"version": 1, "interrupted": true, "code", "error", "seed", "rule",
//   "samples": [{"first_sample", "text", "output_prefix_ids"}]}
// and "trace_id" when it was traced. The prefix includes the output that `request` resumed from.
std::string JsonInterrupted(const Outcome& outcome, const v1::GenerateRequest& request,
                            const absl::Status& status);

// A request that failed before it began:
//   {"version": 1, "refused": true, "code": "INVALID_ARGUMENT", "error": …}
std::string JsonRefused(const absl::Status& status);

}  // namespace tandem::client
