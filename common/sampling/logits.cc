#include "common/sampling/logits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/check.h"
#include "common/sampling/token_history.h"

namespace tandem::sampling {
namespace {

constexpr float kBannedLogit = -std::numeric_limits<float>::infinity();

bool Penalises(const SamplingParameters& parameters) {
  return parameters.repetition_penalty != 1 || parameters.presence_penalty != 0 ||
         parameters.frequency_penalty != 0;
}

bool TooEarlyToEnd(const SamplingParameters& parameters, const TokenHistory& history) {
  return history.output_tokens() < parameters.min_tokens && !parameters.stop_token_ids.empty();
}

double Penalised(double logit, const SamplingParameters& parameters,
                 const TokenHistory::Counts& counts) {
  logit = logit > 0 ? logit / parameters.repetition_penalty : logit * parameters.repetition_penalty;
  if (counts.output == 0) return logit;
  return logit - (parameters.presence_penalty + parameters.frequency_penalty * counts.output);
}

// What a float makes of `changed`, which `logit` became.
float Rounded(double changed, float logit) {
  if (!std::isfinite(logit)) return logit;  // infinities and NaN stay what they are
  constexpr double kMax = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(changed, -kMax, kMax));
}

void Ban(absl::Span<const uint32_t> ids, std::vector<float>& logits) {
  for (uint32_t id : ids) {
    if (id < logits.size()) logits[id] = kBannedLogit;
  }
}

void KeepAllowed(absl::Span<const uint32_t> ids, std::vector<float>& logits) {
  std::vector<float> kept;
  kept.reserve(ids.size());
  for (uint32_t id : ids) kept.push_back(id < logits.size() ? logits[id] : kBannedLogit);
  std::fill(logits.begin(), logits.end(), kBannedLogit);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < logits.size()) logits[ids[i]] = kept[i];
  }
}

}  // namespace

bool ChangesLogits(const SamplingParameters& parameters, const TokenHistory& history) {
  return !parameters.bias.empty() || !parameters.banned.empty() || !parameters.allowed.empty() ||
         TooEarlyToEnd(parameters, history) || (Penalises(parameters) && history.size() > 0);
}

void ProcessLogitsInto(absl::Span<const float> logits, uint32_t vocabulary_size,
                       const SamplingParameters& parameters, const TokenHistory& history,
                       std::vector<float>& processed) {
  TANDEM_CHECK(!logits.empty() && vocabulary_size > 0);
  logits = logits.subspan(0, std::min<size_t>(logits.size(), vocabulary_size));
  processed.assign(logits.begin(), logits.end());
  // Numbers first and bans last: a ban is -infinity, which no penalty changes, so the order of the
  // header comes out. A biased token gets bias and penalties in one go, from its own logit.
  const bool penalises = Penalises(parameters);
  if (penalises) {
    for (const auto& [token, counts] : history.counts()) {
      if (token >= processed.size()) continue;
      const float logit = logits[token];
      processed[token] = Rounded(Penalised(logit, parameters, counts), logit);
    }
  }
  for (const TokenBias& entry : parameters.bias) {
    if (entry.token >= processed.size()) continue;
    const float logit = logits[entry.token];
    double changed = logit + entry.bias;
    if (penalises) {
      const auto counts = history.counts().find(entry.token);
      if (counts != history.counts().end()) {
        changed = Penalised(changed, parameters, counts->second);
      }
    }
    processed[entry.token] = Rounded(changed, logit);
  }
  if (!parameters.allowed.empty()) KeepAllowed(parameters.allowed, processed);
  Ban(parameters.banned, processed);
  if (TooEarlyToEnd(parameters, history)) Ban(parameters.stop_token_ids, processed);
}

std::vector<float> ProcessLogits(absl::Span<const float> logits, uint32_t vocabulary_size,
                                 const SamplingParameters& parameters,
                                 const TokenHistory& history) {
  std::vector<float> processed;
  ProcessLogitsInto(logits, vocabulary_size, parameters, history, processed);
  return processed;
}

}  // namespace tandem::sampling
