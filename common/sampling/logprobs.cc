#include "common/sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/config/check.h"

namespace tandem::sampling {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

}  // namespace

Logprobs Logprobs::OfModel(absl::Span<const float> logits, uint32_t vocabulary_size) {
  TANDEM_CHECK(!logits.empty() && vocabulary_size > 0);
  Logprobs result;
  result.logits_ = logits.subspan(0, std::min<size_t>(logits.size(), vocabulary_size));
  const double largest = *std::max_element(result.logits_.begin(), result.logits_.end());
  double sum = 0;
  for (float logit : result.logits_) sum += std::exp(logit - largest);
  result.log_sum_ = largest + std::log(sum);
  return result;
}

Logprobs Logprobs::OfDistribution(const Distribution& p) {
  Logprobs result;
  result.p_ = &p;
  return result;
}

float Logprobs::operator()(uint32_t token) const {
  if (p_ != nullptr) return static_cast<float>(std::log((*p_)(token)));
  if (token >= logits_.size()) return kNever;
  return static_cast<float>(logits_[token] - log_sum_);
}

std::vector<TokenLogprob> Logprobs::Top(uint32_t count) const {
  std::vector<TokenLogprob> all;
  if (p_ != nullptr) {
    for (uint32_t id : p_->ids) all.push_back({id, (*this)(id)});
  } else {
    for (uint32_t id = 0; id < logits_.size(); ++id) {
      if (logits_[id] != kNever) all.push_back({id, (*this)(id)});
    }
  }
  const size_t kept = std::min<size_t>(count, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                    [](const TokenLogprob& a, const TokenLogprob& b) {
                      return a.logprob != b.logprob ? a.logprob > b.logprob : a.token < b.token;
                    });
  all.resize(kept);
  return all;
}

}  // namespace tandem::sampling
