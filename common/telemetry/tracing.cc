#include "common/telemetry/tracing.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/concurrency/mutex.h"
#include "common/telemetry/batch_processor.h"
#include "common/telemetry/otel_tracer.h"
#include "common/telemetry/tracing_settings.h"
#include "common/telemetry/watched_exporter.h"
#include "opentelemetry/exporters/otlp/otlp_grpc_exporter_factory.h"
#include "opentelemetry/exporters/otlp/otlp_grpc_exporter_options.h"
#include "opentelemetry/sdk/resource/resource.h"
#include "opentelemetry/sdk/trace/processor.h"
#include "opentelemetry/sdk/trace/samplers/always_off_factory.h"
#include "opentelemetry/sdk/trace/samplers/always_on_factory.h"
#include "opentelemetry/sdk/trace/samplers/parent_factory.h"
#include "opentelemetry/sdk/trace/samplers/trace_id_ratio_factory.h"
#include "opentelemetry/sdk/trace/simple_processor_factory.h"
#include "opentelemetry/sdk/trace/tracer_provider.h"
#include "opentelemetry/sdk/trace/tracer_provider_factory.h"

namespace tandem::telemetry {
namespace {

namespace otlp = opentelemetry::exporter::otlp;
namespace sdk_trace = opentelemetry::sdk::trace;
using opentelemetry::sdk::resource::Resource;
using opentelemetry::sdk::resource::ResourceAttributes;

constexpr absl::Duration kMaxGoodbye = absl::Seconds(2);

Resource MakeResource(const TracingOptions& options,
                      const std::map<std::string, std::string>& winners) {
  ResourceAttributes attributes;
  attributes["service.name"] = options.service_name;
  if (!options.instance_id.empty()) attributes["service.instance.id"] = options.instance_id;
  if (!options.version.empty()) attributes["service.version"] = options.version;
  for (const auto& [name, value] : winners) attributes[name] = value;
  return Resource::Create(attributes);
}

std::unique_ptr<sdk_trace::Sampler> MakeSampler(const TracingSettings& settings) {
  std::unique_ptr<sdk_trace::Sampler> sampler;
  switch (settings.sampler) {
    case TracingSettings::Sampler::kAlwaysOn:
      sampler = sdk_trace::AlwaysOnSamplerFactory::Create();
      break;
    case TracingSettings::Sampler::kAlwaysOff:
      sampler = sdk_trace::AlwaysOffSamplerFactory::Create();
      break;
    case TracingSettings::Sampler::kRatio:
      sampler = sdk_trace::TraceIdRatioBasedSamplerFactory::Create(settings.ratio);
      break;
  }
  // Links are for a pass what a parent is for any other span: who does not heed the one heeds no
  // other.
  if (!settings.parent_based) return sampler;
  return SampledByLinks(sdk_trace::ParentBasedSamplerFactory::Create(
      std::shared_ptr<sdk_trace::Sampler>(std::move(sampler))));
}

std::unique_ptr<sdk_trace::SpanExporter> MakeOtlpExporter(const TracingSettings& settings) {
  otlp::OtlpGrpcExporterOptions options;
  options.endpoint = absl::StrCat(settings.tls ? "https://" : "http://", settings.endpoint);
  options.use_ssl_credentials = settings.tls;
  if (!settings.certificate.empty()) options.ssl_credentials_cacert_path = settings.certificate;
  options.timeout = absl::ToChronoNanoseconds(settings.timeout);
  options.metadata.clear();
  for (const auto& header : settings.headers) options.metadata.insert(header);
  options.retry_policy_max_attempts = 0;  // a process that ends would wait for them
  return otlp::OtlpGrpcExporterFactory::Create(options);
}

}  // namespace

struct Tracing::Parts {
  Parts(std::string text, std::unique_ptr<sdk_trace::SpanProcessor> processor,
        const Resource& resource, std::unique_ptr<sdk_trace::Sampler> sampler, bool parent_decides,
        const concurrency::Clock& clock)
      : description(std::move(text)),
        provider(sdk_trace::TracerProviderFactory::Create(std::move(processor), resource,
                                                          std::move(sampler))),
        tracer(clock, provider->GetTracer("tandem"), parent_decides) {}

  const std::string description;
  const std::shared_ptr<sdk_trace::TracerProvider> provider;
  BatchProcessor* batches = nullptr;  // of the provider; null: spans do not wait
  OtelTracer tracer;
};

absl::StatusOr<std::unique_ptr<Tracing>> Tracing::FromEnvironment(const TracingOptions& options,
                                                                  const concurrency::Clock& clock) {
  TANDEM_ASSIGN_OR_RETURN(
      const std::optional<TracingSettings> settings,
      ReadTracingSettings([](const char* name) -> const char* { return std::getenv(name); }));
  if (!settings.has_value()) return std::unique_ptr<Tracing>(new Tracing(nullptr));
  TakeOverOtelLog();
  const BatchOptions batches{.delay = settings->delay,
                             .queue_size = settings->queue_size,
                             .batch_size = settings->batch_size};
  const auto dropped = std::make_shared<std::atomic<uint64_t>>(0);
  auto processor = std::make_unique<BatchProcessor>(
      std::make_unique<WatchedExporter>(MakeOtlpExporter(*settings), settings->endpoint, dropped),
      batches, dropped);
  BatchProcessor* const batch_processor = processor.get();
  auto parts = std::make_unique<Parts>(
      absl::StrCat("otlp ", settings->endpoint, settings->tls ? " (TLS)" : "", ", sampler ",
                   settings->sampler_text),
      std::move(processor), MakeResource(options, settings->resource), MakeSampler(*settings),
      settings->parent_based, clock);
  parts->batches = batch_processor;
  return std::unique_ptr<Tracing>(new Tracing(std::move(parts)));
}

std::unique_ptr<Tracing> Tracing::ForExporter(const TracingOptions& options,
                                              const concurrency::Clock& clock,
                                              std::unique_ptr<sdk_trace::SpanExporter> exporter,
                                              double ratio) {
  TANDEM_CHECK(ratio >= 0 && ratio <= 1) << "a ratio of " << ratio;
  TracingSettings settings;
  settings.sampler = TracingSettings::Sampler::kRatio;
  settings.ratio = ratio;
  auto parts = std::make_unique<Parts>(
      absl::StrCat("an exporter of the caller, sampler parentbased_traceidratio ", ratio),
      sdk_trace::SimpleSpanProcessorFactory::Create(std::move(exporter)), MakeResource(options, {}),
      MakeSampler(settings), settings.parent_based, clock);
  return std::unique_ptr<Tracing>(new Tracing(std::move(parts)));
}

Tracing::Tracing(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

// An export under way cannot be cancelled: it ends at its own timeout, as late as that may be. What
// it uses is then left behind, for good: the process is about to end.
Tracing::~Tracing() {
  if (parts_ == nullptr || parts_->batches == nullptr) return;
  // Not the provider's Shutdown: what it returns is true whatever came of it.
  if (parts_->batches->Shutdown(absl::ToChronoMicroseconds(kMaxGoodbye))) return;
  parts_->batches->LeaveBehind();
  static auto* const left_behind = new std::vector<std::shared_ptr<sdk_trace::TracerProvider>>;
  static auto* const mutex = new concurrency::Mutex;
  concurrency::MutexLock lock(*mutex);
  left_behind->push_back(parts_->provider);
}

Tracer* Tracing::tracer() { return parts_ == nullptr ? nullptr : &parts_->tracer; }

std::string Tracing::Describe() const { return parts_ == nullptr ? "off" : parts_->description; }

void Tracing::Flush(absl::Duration within) {
  if (parts_ == nullptr) return;
  parts_->provider->ForceFlush(absl::ToChronoMicroseconds(within));
}

}  // namespace tandem::telemetry
