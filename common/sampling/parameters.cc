#include "common/sampling/parameters.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"

namespace tandem::sampling {
namespace {

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status CheckCount(absl::string_view name, size_t size, size_t max) {
  if (size <= max) return absl::OkStatus();
  return Invalid(name, " has ", size, " entries; at most ", max);
}

absl::Status CheckIds(absl::string_view name, absl::Span<const uint32_t> ids,
                      uint32_t vocabulary_size) {
  if (vocabulary_size == 0) return absl::OkStatus();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < vocabulary_size) continue;
    return Invalid(name, "[", i, "] is ", ids[i], "; it must be below the vocabulary size, ",
                   vocabulary_size);
  }
  return absl::OkStatus();
}

absl::Status CheckBias(absl::Span<const TokenBias> bias, uint32_t vocabulary_size) {
  TANDEM_RETURN_IF_ERROR(CheckCount("logit_bias", bias.size(), kMaxListedTokens));
  absl::flat_hash_set<uint32_t> seen;
  for (size_t i = 0; i < bias.size(); ++i) {
    const auto [token, value] = bias[i];
    if (vocabulary_size > 0 && token >= vocabulary_size) {
      return Invalid("logit_bias[", i, "].token is ", token,
                     "; it must be below the vocabulary size, ", vocabulary_size);
    }
    if (!(value >= -kMaxBias && value <= kMaxBias)) {  // a NaN too
      return Invalid("logit_bias[", i, "].bias is ", value, "; it must be from ", -kMaxBias, " to ",
                     kMaxBias);
    }
    if (!seen.insert(token).second) {
      return Invalid("logit_bias[", i, "].token is ", token,
                     ", which has a bias already: give each token one");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSomethingLeft(const SamplingParameters& parameters, uint32_t vocabulary_size) {
  absl::flat_hash_set<uint32_t> left(parameters.allowed.begin(), parameters.allowed.end());
  if (parameters.allowed.empty()) {
    // Only a short vocabulary can be banned as a whole.
    if (vocabulary_size == 0 || vocabulary_size > parameters.banned.size() + kMaxEndTokens) {
      return absl::OkStatus();
    }
    for (uint32_t token = 0; token < vocabulary_size; ++token) left.insert(token);
  }
  for (uint32_t token : parameters.banned) left.erase(token);
  if (left.empty()) return Invalid("banned_token_ids leaves no token that may come");
  if (parameters.min_tokens == 0) return absl::OkStatus();
  for (uint32_t token : parameters.stop_token_ids) left.erase(token);
  if (left.empty()) {
    return Invalid("min_tokens is ", parameters.min_tokens,
                   ", but only tokens that end the text may come");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const SamplingParameters& parameters, uint32_t vocabulary_size) {
  TANDEM_RETURN_IF_ERROR(CheckBias(parameters.bias, vocabulary_size));
  TANDEM_RETURN_IF_ERROR(CheckIds("banned_token_ids", parameters.banned, vocabulary_size));
  TANDEM_RETURN_IF_ERROR(CheckIds("allowed_token_ids", parameters.allowed, vocabulary_size));
  TANDEM_RETURN_IF_ERROR(
      CheckCount("stop_token_ids", parameters.stop_token_ids.size(), kMaxEndTokens));
  TANDEM_RETURN_IF_ERROR(CheckIds("stop_token_ids", parameters.stop_token_ids, vocabulary_size));
  return CheckSomethingLeft(parameters, vocabulary_size);
}

}  // namespace tandem::sampling
