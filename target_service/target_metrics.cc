#include "target_service/target_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <utility>

namespace tandem::target_service {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

const Buckets& Times() {
  static const Buckets times = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    60};
  return times;
}

const Buckets& Counts() {
  static const Buckets counts = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  return counts;
}

prometheus::Histogram& AddHistogram(prometheus::Registry& registry, const char* name,
                                    const char* help, const Buckets& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

std::vector<prometheus::Counter*> AddSteps(prometheus::Registry& registry) {
  auto& family = prometheus::BuildCounter()
                     .Name("tandem:target_steps_total")
                     .Help("Steps that were answered, by status")
                     .Register(registry);
  std::vector<prometheus::Counter*> counters(v1::Status_ARRAYSIZE, nullptr);
  for (int status = v1::STATUS_OK; status < v1::Status_ARRAYSIZE; ++status) {
    if (!v1::Status_IsValid(status)) continue;
    const auto name = StatusName(static_cast<v1::Status>(status));
    counters[static_cast<size_t>(status)] = &family.Add({{"status", std::string(name)}});
  }
  return counters;
}

prometheus::MetricFamily Family(const char* name, const char* help, prometheus::MetricType type,
                                double value) {
  prometheus::MetricFamily family{name, help, type, std::vector<prometheus::ClientMetric>(1)};
  family.metric[0].counter.value = value;
  family.metric[0].gauge.value = value;
  return family;
}

}  // namespace

TargetMetrics::TargetMetrics()
    : registry_(std::make_unique<prometheus::Registry>()),
      steps_(AddSteps(*registry_)),
      candidates_(prometheus::BuildCounter()
                      .Name("tandem:target_candidates_total")
                      .Help("Candidates that were checked")
                      .Register(*registry_)
                      .Add({})),
      pass_seconds_(AddHistogram(*registry_, "tandem:target_pass_seconds",
                                 "The model's time for a pass", Times())),
      pass_rows_(AddHistogram(*registry_, "tandem:target_pass_rows",
                              "Tokens that a pass computed, all sequences together", Counts())),
      pass_sequences_(AddHistogram(*registry_, "tandem:target_pass_sequences",
                                   "Sequences that shared a pass", Counts())),
      queue_seconds_(AddHistogram(*registry_, "tandem:target_step_queue_seconds",
                                  "From a Step's arrival to its first pass; of those answered OK",
                                  Times())),
      compute_seconds_(AddHistogram(
          *registry_, "tandem:target_step_compute_seconds",
          "The model's time for the passes that a Step took part in; of those answered OK",
          Times())) {}

TargetMetrics::~TargetMetrics() = default;

void TargetMetrics::PassEnds(const EndedPass& pass) {
  concurrency::MutexLock lock(mutex_);
  pass_seconds_.Observe(absl::ToDoubleSeconds(pass.computed));
  pass_rows_.Observe(pass.rows);
  pass_sequences_.Observe(pass.sequences());
}

void TargetMetrics::StepAnswered(const AnsweredStep& step) {
  const v1::Status status = step.verdict.status();
  concurrency::MutexLock lock(mutex_);
  steps_[static_cast<size_t>(status)]->Increment();
  if (status != v1::STATUS_OK || step.work == nullptr) return;
  const Work& work = *step.work;
  candidates_.Increment(static_cast<double>(work.step.candidates.size()));
  queue_seconds_.Observe(absl::ToDoubleSeconds(work.began - work.arrived));
  compute_seconds_.Observe(absl::ToDoubleSeconds(work.computed));
}

std::string TargetMetrics::Text(const v1::Load& load, size_t active_sequences) const {
  using prometheus::MetricType;
  std::vector<prometheus::MetricFamily> families;
  {
    concurrency::MutexLock lock(mutex_);
    families = registry_->Collect();
  }
  families.push_back(Family("tandem:target_passes_total", "Passes of the device",
                            MetricType::Counter, static_cast<double>(load.passes())));
  families.push_back(Family("tandem:target_busy_seconds_total", "The model's time for all passes",
                            MetricType::Counter, static_cast<double>(load.busy_us()) / 1e6));
  families.push_back(Family("tandem:target_active_sequences",
                            "Sequences that are held, with those whose stream broke just now",
                            MetricType::Gauge, static_cast<double>(active_sequences)));
  families.push_back(Family("tandem:target_free_slots", "Sequences that could be opened now",
                            MetricType::Gauge, load.free_slots()));
  families.push_back(Family("tandem:target_queued_rows", "Tokens that wait for a pass",
                            MetricType::Gauge, load.queued_rows()));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace tandem::target_service
