#include "draft_service/serving/draft_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/concurrency/mutex.h"
#include "common/telemetry/buckets.h"
#include "common/telemetry/metrics.h"
#include "common/transport/status_name.h"

namespace tandem::draft_service {
namespace {

using concurrency::MutexLock;
using prometheus::MetricFamily;
using prometheus::MetricType;
using telemetry::AddHistogram;
using telemetry::SingleValue;

}  // namespace

struct DraftMetrics::Counts {
  Counts() {
    auto& family = prometheus::BuildCounter()
                       .Name("tandem:draft_blocks_total")
                       .Help("Answered Advances, by the status of their Block")
                       .Register(registry);
    for (int status = internal::v1::STATUS_OK; status <= internal::v1::Status_MAX; ++status) {
      if (!internal::v1::Status_IsValid(status)) continue;
      const absl::string_view name =
          transport::StatusName(static_cast<internal::v1::Status>(status));
      blocks[static_cast<size_t>(status)] = &family.Add({{"status", std::string(name)}});
    }
    auto& prepared_family =
        prometheus::BuildCounter()
            .Name("tandem:draft_prepared_blocks_total")
            .Help(
                "Blocks prepared for outcomes of the one before: sent, and of these used for the "
                "next round or discarded")
            .Register(registry);
    for (const char* event : {"sent", "taken", "dropped"}) {
      prepared.push_back(&prepared_family.Add({{"event", event}}));
    }
  }

  mutable concurrency::Mutex mutex;  // so that a text never has half of what one call counted
  prometheus::Registry registry;
  std::array<prometheus::Counter*, internal::v1::Status_ARRAYSIZE> blocks{};
  std::vector<prometheus::Counter*> prepared;  // by PreparedEvent
  prometheus::Counter& tokens = prometheus::BuildCounter()
                                    .Name("tandem:draft_tokens_total")
                                    .Help("Draft tokens in the Blocks that were sent")
                                    .Register(registry)
                                    .Add({});
  prometheus::Counter& prefix_queries = prometheus::BuildCounter()
                                            .Name("tandem:draft_prefix_cache_queries_total")
                                            .Help("Tokens of new sequences with a cache_scope")
                                            .Register(registry)
                                            .Add({});
  prometheus::Counter& prefix_hits = prometheus::BuildCounter()
                                         .Name("tandem:draft_prefix_cache_hits_total")
                                         .Help("Of these: taken from other sequences, not computed")
                                         .Register(registry)
                                         .Add({});
  prometheus::Histogram& block_seconds =
      AddHistogram(registry, "tandem:draft_block_seconds",
                   "Time to draft a Block, of those with status OK", telemetry::SecondsBuckets());
  prometheus::Histogram& queue_seconds =
      AddHistogram(registry, "tandem:draft_queue_seconds",
                   "Time that an Advance waited for the drafting thread; of all Advances",
                   telemetry::SecondsBuckets());
  prometheus::Histogram& pass_rows =
      AddHistogram(registry, "tandem:draft_pass_rows", "Rows per pass of the draft model",
                   telemetry::CountBuckets());
  prometheus::Histogram& pass_sequences =
      AddHistogram(registry, "tandem:draft_pass_sequences", "Sequences per pass of the draft model",
                   telemetry::CountBuckets());
};

DraftMetrics::DraftMetrics() : counts_(std::make_unique<Counts>()) {}
DraftMetrics::~DraftMetrics() = default;

void DraftMetrics::CountAdvance(internal::v1::Status status, uint32_t tokens, absl::Duration queued,
                                absl::Duration computed) {
  prometheus::Counter* const blocks = counts_->blocks.at(static_cast<size_t>(status));
  TANDEM_CHECK(blocks != nullptr) << status;
  MutexLock lock(counts_->mutex);
  blocks->Increment();
  counts_->queue_seconds.Observe(absl::ToDoubleSeconds(queued));
  if (status != internal::v1::STATUS_OK) return;
  counts_->tokens.Increment(tokens);
  counts_->block_seconds.Observe(absl::ToDoubleSeconds(computed));
}

void DraftMetrics::CountRecalled(const Drafter::Recalled& recalled) {
  MutexLock lock(counts_->mutex);
  counts_->prefix_queries.Increment(static_cast<double>(recalled.looked_for));
  counts_->prefix_hits.Increment(static_cast<double>(recalled.found));
}

void DraftMetrics::CountPrepared(PreparedEvent event, size_t blocks) {
  MutexLock lock(counts_->mutex);
  counts_->prepared[static_cast<size_t>(event)]->Increment(static_cast<double>(blocks));
}

void DraftMetrics::CountPass(int rows, int sequences) {
  MutexLock lock(counts_->mutex);
  counts_->pass_rows.Observe(rows);
  counts_->pass_sequences.Observe(sequences);
}

std::vector<MetricFamily> DraftMetrics::Collect(const v1::Load& load,
                                                size_t active_sequences) const {
  std::vector<MetricFamily> families;
  {
    MutexLock lock(counts_->mutex);
    families = counts_->registry.Collect();
  }
  const double busy = static_cast<double>(load.busy_us()) / 1e6;
  families.push_back(SingleValue("tandem:draft_passes_total", "Passes of the draft model",
                                 MetricType::Counter, static_cast<double>(load.passes())));
  families.push_back(SingleValue("tandem:draft_busy_seconds_total",
                                 "Time that the drafting thread computed", MetricType::Counter,
                                 busy));
  families.push_back(SingleValue("tandem:draft_active_sequences", "Open sequences",
                                 MetricType::Gauge, static_cast<double>(active_sequences)));
  families.push_back(SingleValue("tandem:draft_free_slots", "Sequences that could be opened now",
                                 MetricType::Gauge, load.free_slots()));
  families.push_back(SingleValue("tandem:draft_queued_rows", "Rows waiting for a pass",
                                 MetricType::Gauge, load.queued_rows()));
  return families;
}

}  // namespace tandem::draft_service
