#include "common/sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "common/base/check.h"
#include "common/sampling/elementary.h"

namespace tandem::sampling {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// The places of the `count` largest of `size` values that are above `never`, falling, ties to the
// lower place. Few values ever get in.
template <typename Value>
std::vector<uint32_t> LargestPlaces(absl::Span<const Value> values, uint32_t count, Value never) {
  std::vector<uint32_t> best;  // a heap, the worst of them in front
  const auto better = [&](uint32_t a, uint32_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  };
  for (uint32_t i = 0; count > 0 && i < values.size(); ++i) {
    if (!(values[i] > never)) continue;
    if (best.size() < count) {
      best.push_back(i);
      std::push_heap(best.begin(), best.end(), better);
    } else if (values[i] > values[best.front()]) {
      std::pop_heap(best.begin(), best.end(), better);
      best.back() = i;
      std::push_heap(best.begin(), best.end(), better);
    }
  }
  std::sort_heap(best.begin(), best.end(), better);
  return best;
}

}  // namespace

Logprobs Logprobs::OfModel(absl::Span<const float> logits, uint32_t vocabulary_size) {
  TANDEM_CHECK(!logits.empty() && vocabulary_size > 0);
  Logprobs result;
  result.logits_ = logits.subspan(0, std::min<size_t>(logits.size(), vocabulary_size));
  result.largest_ = kNever;
  bool has_nan = false;
  for (float logit : result.logits_) {
    has_nan |= std::isnan(logit);
    if (logit > result.largest_) result.largest_ = logit;
  }
  if (has_nan || std::isinf(result.largest_)) {
    result.log_sum_ = std::numeric_limits<double>::quiet_NaN();
    return result;
  }
  std::vector<double> exponentials(result.logits_.size());
  result.log_sum_ =
      Log(ExpAll(result.logits_, result.largest_, /*scale=*/1, absl::MakeSpan(exponentials)));
  return result;
}

Logprobs Logprobs::OfDistribution(const Distribution& p) {
  Logprobs result;
  result.p_ = &p;
  return result;
}

float Logprobs::operator()(uint32_t token) const {
  if (p_ != nullptr) {
    const double probability = (*p_)(token);
    if (probability <= 0) return kNever;
    // A probability may be too small to be a normal number, which Log asks for.
    constexpr double kLog2 = 0x1.62e42fefa39efp-1;
    return static_cast<float>(probability < std::numeric_limits<double>::min()
                                  ? Log(probability * 0x1p64) - 64 * kLog2
                                  : Log(probability));
  }
  if (token >= logits_.size()) return kNever;
  // In this order a large logit does not swallow the sum.
  return static_cast<float>(double{logits_[token]} - largest_ - log_sum_);
}

std::vector<TokenLogprob> Logprobs::Top(uint32_t count) const {
  std::vector<TokenLogprob> top;
  if (p_ != nullptr) {
    for (uint32_t place : LargestPlaces<double>(p_->probabilities, count, 0)) {
      top.push_back({p_->ids[place], (*this)(p_->ids[place])});
    }
  } else if (!std::isnan(log_sum_)) {
    for (uint32_t id : LargestPlaces<float>(logits_, count, kNever)) {
      top.push_back({id, (*this)(id)});
    }
  }
  return top;
}

}  // namespace tandem::sampling
