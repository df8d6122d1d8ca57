#include "target_service/answers/target_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <string>

#include "common/telemetry/buckets.h"
#include "common/telemetry/metrics.h"
#include "common/transport/status_name.h"

namespace tandem::target_service {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;
using telemetry::AddHistogram;
using telemetry::CountBuckets;
using telemetry::SecondsBuckets;
using telemetry::SingleValue;

std::vector<prometheus::Counter*> AddSteps(prometheus::Registry& registry) {
  auto& family = prometheus::BuildCounter()
                     .Name("tandem:target_steps_total")
                     .Help("Answered Steps, by status")
                     .Register(registry);
  std::vector<prometheus::Counter*> counters(internal::v1::Status_ARRAYSIZE, nullptr);
  for (int status = internal::v1::STATUS_OK; status < internal::v1::Status_ARRAYSIZE; ++status) {
    if (!internal::v1::Status_IsValid(status)) continue;
    const auto name = transport::StatusName(static_cast<internal::v1::Status>(status));
    counters[static_cast<size_t>(status)] = &family.Add({{"status", std::string(name)}});
  }
  return counters;
}

}  // namespace

TargetMetrics::TargetMetrics()
    : registry_(std::make_unique<prometheus::Registry>()),
      steps_(AddSteps(*registry_)),
      candidates_(prometheus::BuildCounter()
                      .Name("tandem:target_candidates_total")
                      .Help("Verified draft tokens")
                      .Register(*registry_)
                      .Add({})),
      prefix_queries_(prometheus::BuildCounter()
                          .Name("tandem:target_prefix_cache_queries_total")
                          .Help("Tokens of new sequences with a cache_scope")
                          .Register(*registry_)
                          .Add({})),
      prefix_hits_(prometheus::BuildCounter()
                       .Name("tandem:target_prefix_cache_hits_total")
                       .Help("Of these: taken from other sequences, not computed")
                       .Register(*registry_)
                       .Add({})),
      pass_seconds_(AddHistogram(*registry_, "tandem:target_pass_seconds",
                                 "The model's time for a pass", SecondsBuckets())),
      pass_rows_(AddHistogram(*registry_, "tandem:target_pass_rows",
                              "Tokens per pass, all sequences together", CountBuckets())),
      pass_sequences_(AddHistogram(*registry_, "tandem:target_pass_sequences", "Sequences per pass",
                                   CountBuckets())),
      queue_seconds_(AddHistogram(*registry_, "tandem:target_step_queue_seconds",
                                  "From a Step's arrival to its first pass; of those answered OK",
                                  SecondsBuckets())),
      compute_seconds_(AddHistogram(
          *registry_, "tandem:target_step_compute_seconds",
          "The model's time for the passes that a Step took part in; of those answered OK",
          SecondsBuckets())) {}

TargetMetrics::~TargetMetrics() = default;

void TargetMetrics::PassEnds(const EndedPass& pass) {
  concurrency::MutexLock lock(mutex_);
  pass_seconds_.Observe(absl::ToDoubleSeconds(pass.computed));
  pass_rows_.Observe(pass.rows);
  pass_sequences_.Observe(pass.sequences());
}

void TargetMetrics::StepAnswered(const AnsweredStep& step) {
  const internal::v1::Status status = step.verdict.status();
  concurrency::MutexLock lock(mutex_);
  steps_[static_cast<size_t>(status)]->Increment();
  if (status != internal::v1::STATUS_OK || step.work == nullptr) return;
  const Work& work = *step.work;
  candidates_.Increment(static_cast<double>(work.step.block.size()));
  if (work.step.options.has_value() && !work.step.options->cache_scope.empty()) {
    prefix_queries_.Increment(work.step.committed());
    prefix_hits_.Increment(work.plan.cached_tokens);
  }
  queue_seconds_.Observe(absl::ToDoubleSeconds(work.began - work.arrived));
  compute_seconds_.Observe(absl::ToDoubleSeconds(work.computed));
}

std::vector<MetricFamily> TargetMetrics::Collect(const v1::Load& load, size_t active_sequences,
                                                 const EngineInfo& engine) const {
  std::vector<MetricFamily> families;
  prometheus::ClientMetric::Histogram passes;
  {
    concurrency::MutexLock lock(mutex_);
    families = registry_->Collect();
    passes = pass_seconds_.Collect().histogram;
  }
  families.push_back(SingleValue("tandem:target_passes_total", "Passes of the device",
                                 MetricType::Counter, static_cast<double>(passes.sample_count)));
  families.push_back(SingleValue("tandem:target_busy_seconds_total",
                                 "The model's time for all passes", MetricType::Counter,
                                 passes.sample_sum));
  families.push_back(SingleValue("tandem:target_active_sequences",
                                 "Open sequences, including those whose stream broke just now",
                                 MetricType::Gauge, static_cast<double>(active_sequences)));
  families.push_back(SingleValue("tandem:target_free_slots", "Sequences that could be opened now",
                                 MetricType::Gauge, load.free_slots()));
  if (load.has_free_tokens()) {
    families.push_back(SingleValue("tandem:target_free_tokens",
                                   "Tokens of the KV cache that no sequence has reserved",
                                   MetricType::Gauge, static_cast<double>(load.free_tokens())));
  }
  if (load.has_free_tokens() && engine.pool_tokens > 0) {
    const double free = static_cast<double>(load.free_tokens());
    const double used = 1 - free / static_cast<double>(engine.pool_tokens);
    families.push_back(SingleValue("tandem:target_kv_cache_usage_ratio",
                                   "Reserved part of the KV cache, 0 to 1", MetricType::Gauge,
                                   std::clamp(used, 0.0, 1.0)));
  }
  families.push_back(SingleValue("tandem:target_queued_rows", "Tokens waiting for a pass",
                                 MetricType::Gauge, load.queued_rows()));
  families.push_back(SingleValue("tandem:target_switched_off_paths",
                                 "Faster ways of computing that failed the device's self-check",
                                 MetricType::Gauge,
                                 static_cast<double>(engine.switched_off.size())));
  return families;
}

}  // namespace tandem::target_service
