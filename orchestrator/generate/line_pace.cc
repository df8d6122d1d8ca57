#include "orchestrator/generate/line_pace.h"

#include <algorithm>

#include "orchestrator/generate/error_details.h"

namespace tandem::orchestrator {
namespace {

constexpr int kWeight = 8;  // the last moves count most

}  // namespace

void LinePace::OnMoved(concurrency::Instant now) {
  const absl::Duration gap = now - moved_;
  mean_ = mean_.has_value() ? *mean_ + (gap - *mean_) / kWeight : gap;
  moved_ = now;
}

absl::Duration LinePace::TimeFor(size_t places, concurrency::Instant now) const {
  constexpr absl::Duration kMinRetry = absl::Seconds(kRetrySeconds);
  if (!mean_.has_value()) return kMinRetry;
  // A line that stands still is slower than it was.
  const absl::Duration gap = std::max(*mean_, now - moved_);
  const absl::Duration time = gap * static_cast<double>(places);
  return std::clamp(absl::Ceil(time, absl::Seconds(1)), kMinRetry, kMaxRetry);
}

}  // namespace tandem::orchestrator
