#include "common/sampling/sparse.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace tandem::sampling {
namespace {

constexpr uint32_t kMaxWeight = 65535;

uint64_t SumOf(absl::Span<const uint32_t> weights) {
  uint64_t sum = 0;
  for (uint32_t weight : weights) sum += weight;
  return sum;
}

}  // namespace

double SparseDistribution::operator()(uint32_t token) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == token)
      return static_cast<double>(weights[i]) / static_cast<double>(SumOf(weights));
  }
  return 0;
}

SparseDistribution Sparsify(const Distribution& q, int max_entries) {
  TANDEM_CHECK(max_entries >= 1 && max_entries <= kMaxSparseEntries) << max_entries;
  TANDEM_CHECK(!q.ids.empty());
  // Indices of the best so far, the worst of them in front. Few entries of q ever get in.
  auto better = [&](size_t a, size_t b) {
    if (q.probabilities[a] != q.probabilities[b]) return q.probabilities[a] > q.probabilities[b];
    return a < b;  // ids ascend
  };
  std::vector<size_t> best;
  best.reserve(max_entries);
  for (size_t i = 0; i < q.ids.size(); ++i) {
    if (best.size() < static_cast<size_t>(max_entries)) {
      best.push_back(i);
      std::push_heap(best.begin(), best.end(), better);
    } else if (q.probabilities[i] > q.probabilities[best.front()]) {
      std::pop_heap(best.begin(), best.end(), better);
      best.back() = i;
      std::push_heap(best.begin(), best.end(), better);
    }
  }
  std::sort(best.begin(), best.end(), better);
  SparseDistribution sparse;
  const double scale = kMaxWeight / q.probabilities[best[0]];
  for (size_t i : best) {
    double weight = std::floor(q.probabilities[i] * scale + 0.5);
    sparse.ids.push_back(q.ids[i]);
    sparse.weights.push_back(static_cast<uint32_t>(std::clamp(weight, 1.0, double{kMaxWeight})));
  }
  return sparse;
}

uint32_t Draw(const SparseDistribution& q, double u) {
  TANDEM_CHECK(!q.ids.empty() && q.ids.size() == q.weights.size());
  const uint64_t sum = SumOf(q.weights);
  uint64_t at = static_cast<uint64_t>(u * static_cast<double>(sum));  // below sum, but for rounding
  for (size_t i = 0; i < q.ids.size(); ++i) {
    if (at < q.weights[i]) return q.ids[i];
    at -= q.weights[i];
  }
  return q.ids.back();
}

absl::Status ValidateFor(const SparseDistribution& q, uint32_t candidate,
                         uint32_t vocabulary_size) {
  if (q.ids.size() != q.weights.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "q has ", q.ids.size(), " ids and ", q.weights.size(), " weights; it must have as many"));
  }
  if (q.ids.empty() || q.ids.size() > static_cast<size_t>(kMaxSparseEntries)) {
    return absl::InvalidArgumentError(
        absl::StrCat("q has ", q.ids.size(), " entries; it must have 1 to ", kMaxSparseEntries));
  }
  for (size_t i = 0; i < q.ids.size(); ++i) {
    if (q.ids[i] >= vocabulary_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "q has token ", q.ids[i], ", which is not below the vocabulary's ", vocabulary_size));
    }
    if (q.weights[i] < 1 || q.weights[i] > kMaxWeight) {
      return absl::InvalidArgumentError(absl::StrCat("q has weight ", q.weights[i], " for token ",
                                                     q.ids[i], "; it must be 1 to ", kMaxWeight));
    }
  }
  std::vector<uint32_t> sorted = q.ids;
  std::sort(sorted.begin(), sorted.end());
  auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return absl::InvalidArgumentError(absl::StrCat("q has token ", *twice, " twice"));
  }
  if (!std::binary_search(sorted.begin(), sorted.end(), candidate)) {
    return absl::InvalidArgumentError(
        absl::StrCat("q gives its own draft token ", candidate, " the probability 0"));
  }
  return absl::OkStatus();
}

}  // namespace tandem::sampling
