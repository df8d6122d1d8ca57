// Replies as JSON lines, for programs: one object a line, without the line break.
//
// A log probability is natural; that of a token of probability 0 is minus infinity, for which JSON
// has no number: it is null.
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/common/outcome.h"

namespace tandem::client {

//   {"sample_index": 0, "delta": …, "token_ids": […]}
// and, when asked for, "logprobs": […], "top_logprobs": [[{"token": …, "logprob": …}, …], …].
std::string JsonDelta(const v1::Delta& delta);

//   {"prompt_logprobs": {"first_position": 1, "token_ids": […], "logprobs": […],
//   "top_logprobs": […]}}
std::string JsonPromptLogprobs(const v1::PromptLogprobs& prompt);

//   {"final": true, "text", "token_ids", "finish_reason", "usage": {…}, "speculation": {…},
//   "timing_ms": {…}}
// with "logprobs", "top_logprobs", "prompt_logprobs" and "stop_string" where there are any. Text to
// finish reason are those of sample 0. "samples" has all of them, each with its own speculation,
// when there is more than one. timing_ms.stages sums up where the rounds' time went; "trace_id" is there
// when the request is traced, "rounds" when they were asked for: {"sample_index", "number", "began_ms",
// "took_ms", "stages_ms": {…}, "draft_tokens", "accepted_tokens", "tokens", "pass_id", "pass_rows",
// "pass_sequences"} each, and "cause" where there was no draft.
std::string JsonFinal(const Outcome& outcome);

// What came of a request that began and failed, for who wants to resume it:
//   {"interrupted": true, "error", "seed", "rule", "samples": [{"first_sample", "text",
//   "output_prefix_ids"}]}
// and "trace_id" when it was traced.
// The prefix includes what `request` resumed from.
std::string JsonInterrupted(const Outcome& outcome, const v1::GenerateRequest& request,
                            const absl::Status& status);

}  // namespace tandem::client
