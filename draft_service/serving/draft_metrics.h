// The draft service's metrics, but for those that every process has
// (common/telemetry/metrics_text.h).
//
// Thread-safe. Counting takes a lock for a moment and allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "draft_service/drafters/drafter.h"
#include "prometheus/metric_family.h"
#include "tandem/internal/v1/tokens.pb.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::draft_service {

// What becomes of a block that was made in advance: it is sent, and then taken or dropped.
enum class PreparedEvent : uint8_t { kSent, kTaken, kDropped };

class DraftMetrics {
 public:
  DraftMetrics();
  ~DraftMetrics();

  // An Advance is over. In every scrape, the blocks of all statuses are the observations of
  // tandem:draft_queue_seconds, and those with OK are the ones of tandem:draft_block_seconds.
  void CountAdvance(internal::v1::Status status, uint32_t tokens, absl::Duration queued,
                    absl::Duration computed);
  void CountRecalled(const Drafter::Recalled& recalled);
  void CountPrepared(PreparedEvent event, size_t blocks);
  void CountPass(int rows, int sequences);

  // `load`: what the load meter counts is not counted again here.
  std::vector<prometheus::MetricFamily> Collect(const v1::Load& load,
                                                size_t active_sequences) const;

 private:
  struct Counts;
  const std::unique_ptr<Counts> counts_;
};

}  // namespace tandem::draft_service
