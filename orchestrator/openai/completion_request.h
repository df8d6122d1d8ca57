// Requests of OpenAI's API as requests of the generator. docs/http.md lists the fields.
//
// Thread safety: plain values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/json.h"
#include "orchestrator/openai/error.h"
#include "orchestrator/openai/fields.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {

struct CompletionRequest {
  v1::GenerateRequest wire;                 // with the first prompt
  std::vector<v1::GenerateRequest> others;  // the further prompts, and nothing else
  std::optional<std::string> model;         // absent: the client does not care
  bool stream = false;
  bool include_usage = false;                         // of a stream: one more event with it
  bool return_token_ids = false;                      // choices have `token_ids`
  bool logprobs = false;                              // choices have `logprobs`
  bool echo = false;                                  // the text begins with the prompt
  bool echo_alone = false;                            // and ends with it
  std::vector<std::string> ignored;                   // fields that have no use here
  FieldNames names;                                   // of the request, for errors
  absl::Duration timeout = absl::InfiniteDuration();  // the deadline, from the arrival
};

// A JSON object out of a body. INVALID_ARGUMENT: it is none, is nested too deeply, or would take
// too much memory.
absl::StatusOr<base::JsonValue> ParseBody(absl::string_view body);

// Of POST /v1/completions. INVALID_ARGUMENT names the field (error.h).
absl::StatusOr<CompletionRequest> ParseCompletion(const base::JsonValue& body);

// What all kinds of requests share: the model, the stream, how tokens are drawn, when the text
// ends, and `tandem`. Errors are kept by `fields`.
void ReadSharedFields(Fields& fields, CompletionRequest& to);
// The object `tandem`: what OpenAI's API has no names for.
void ReadTandemFields(Fields& fields, v1::GenerateRequest& to, absl::Duration& timeout);

}  // namespace tandem::orchestrator
