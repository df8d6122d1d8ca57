#include "common/sampling/logits.h"

#include <limits>

#include "common/config/check.h"

namespace tandem::sampling {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

void Ban(absl::Span<const uint32_t> ids, std::vector<float>& logits) {
  for (uint32_t id : ids) {
    if (id < logits.size()) logits[id] = kNever;
  }
}

void KeepAllowed(absl::Span<const uint32_t> ids, std::vector<float>& logits) {
  std::vector<float> kept(logits.size(), kNever);
  for (uint32_t id : ids) {
    if (id < logits.size()) kept[id] = logits[id];
  }
  logits = std::move(kept);
}

void Penalise(const SamplingParameters& parameters, const TokenHistory& history,
              std::vector<float>& logits) {
  for (const auto& [token, counts] : history.counts()) {
    if (token >= logits.size()) continue;
    double logit = logits[token];
    logit =
        logit > 0 ? logit / parameters.repetition_penalty : logit * parameters.repetition_penalty;
    if (counts.output > 0) {
      logit -= parameters.presence_penalty + parameters.frequency_penalty * counts.output;
    }
    logits[token] = static_cast<float>(logit);
  }
}

}  // namespace

std::vector<float> ProcessLogits(absl::Span<const float> logits, uint32_t vocabulary_size,
                                 const SamplingParameters& parameters,
                                 const TokenHistory& history) {
  TANDEM_CHECK(!logits.empty() && vocabulary_size > 0);
  logits = logits.subspan(0, std::min<size_t>(logits.size(), vocabulary_size));
  std::vector<float> processed(logits.begin(), logits.end());
  for (const TokenBias& entry : parameters.bias) {
    if (entry.token >= processed.size()) continue;
    processed[entry.token] = static_cast<float>(processed[entry.token] + entry.bias);
  }
  if (!parameters.allowed.empty()) KeepAllowed(parameters.allowed, processed);
  Ban(parameters.banned, processed);
  if (history.output_tokens() < parameters.minimum_tokens) Ban(parameters.end_tokens, processed);
  if (parameters.repetition_penalty != 1 || parameters.presence_penalty != 0 ||
      parameters.frequency_penalty != 0) {
    Penalise(parameters, history, processed);
  }
  return processed;
}

}  // namespace tandem::sampling
