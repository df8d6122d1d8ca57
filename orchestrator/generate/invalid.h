// Makes the errors of invalid requests, for the files that check their parts (request_validation.cc
// and its neighbours).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem::orchestrator {

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// A payload of errors about a text that does not fit into the context.
inline constexpr absl::string_view kContextExceeded = "tandem.v1.context_exceeded";

template <typename... Parts>
absl::Status ContextExceeded(const Parts&... parts) {
  absl::Status status = Invalid(parts...);
  status.SetPayload(kContextExceeded, absl::Cord());
  return status;
}

// The words that programs look for in such an error, OpenAI's.
inline std::string ContextWords(uint32_t tokens) {
  return absl::StrCat("this model's maximum context length is ", tokens, " tokens");
}

inline absl::Status CheckIds(absl::string_view field, absl::Span<const uint32_t> ids,
                             uint32_t vocabulary_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < vocabulary_size) continue;
    return Invalid(field, "[", i, "] is ", ids[i], "; it must be below the vocabulary size, ",
                   vocabulary_size);
  }
  return absl::OkStatus();
}

}  // namespace tandem::orchestrator
