// Errors in the form of OpenAI's API: a status of HTTP and
//
//   {"error": {"message": …, "type": …, "param": FIELD or null, "code": NAME or null}}
//
// Thread safety: pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/http/reply.h"

namespace tandem::orchestrator {

// INVALID_ARGUMENT about a field of the request's body, which `message` names. `code` of the body;
// empty: null.
absl::Status FieldError(absl::string_view field, absl::string_view message,
                        absl::string_view code = "");

// NOT_FOUND about `model`: a model that is not the one that is served.
absl::Status ModelNotFound(absl::string_view asked, absl::string_view served);

// The fields that a request has its prompt and its limit in.
struct FieldNames {
  std::string prompt = "prompt";
  std::string max_tokens = "max_tokens";
};

// What a client sees of a status that is not OK. The generator's errors begin with the path of a
// field in GenerateRequest, and may name others: here they become the names that fields have over
// HTTP.
struct ApiError {
  int code = 500;
  std::string message;
  std::string type;
  std::string param;      // empty: null
  std::string name;       // `code` of the body; empty: null
  int retry_seconds = 0;  // of 429 and 503: when to ask again; 0: nobody knows
};
ApiError ToApiError(const absl::Status& status, const FieldNames& names = {});

std::string ErrorJson(const ApiError& error);
// As ErrorJson, for what never was a request, or was refused by its head.
http::Response ErrorResponse(int code, absl::string_view message);
// With the headers that belong to its code: Retry-After, WWW-Authenticate.
http::Response ErrorResponse(const ApiError& error);

}  // namespace tandem::orchestrator
