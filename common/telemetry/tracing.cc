#include "common/telemetry/tracing.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/concurrency/mutex.h"
#include "common/concurrency/system_clock.h"
#include "common/config/check.h"
#include "common/config/status_macros.h"
#include "common/telemetry/otel_tracer.h"
#include "common/telemetry/tracing_settings.h"
#include "common/telemetry/watched_exporter.h"
#include "opentelemetry/exporters/otlp/otlp_grpc_exporter_factory.h"
#include "opentelemetry/exporters/otlp/otlp_grpc_exporter_options.h"
#include "opentelemetry/sdk/resource/resource.h"
#include "opentelemetry/sdk/trace/batch_span_processor_factory.h"
#include "opentelemetry/sdk/trace/batch_span_processor_options.h"
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
namespace sdk = opentelemetry::sdk::trace;
using opentelemetry::sdk::resource::Resource;
using opentelemetry::sdk::resource::ResourceAttributes;

constexpr absl::Duration kMostGoodbye = absl::Seconds(2);

Resource MakeResource(const TracingOptions& options,
                      const std::map<std::string, std::string>& winners) {
  ResourceAttributes attributes;
  attributes["service.name"] = options.service_name;
  if (!options.instance_id.empty()) attributes["service.instance.id"] = options.instance_id;
  if (!options.version.empty()) attributes["service.version"] = options.version;
  for (const auto& [name, value] : winners) attributes[name] = value;
  return Resource::Create(attributes);
}

std::unique_ptr<sdk::Sampler> MakeSampler(const TracingSettings& settings) {
  std::unique_ptr<sdk::Sampler> sampler;
  switch (settings.sampler) {
    case TracingSettings::Sampler::kAlwaysOn:
      sampler = sdk::AlwaysOnSamplerFactory::Create();
      break;
    case TracingSettings::Sampler::kAlwaysOff:
      sampler = sdk::AlwaysOffSamplerFactory::Create();
      break;
    case TracingSettings::Sampler::kRatio:
      sampler = sdk::TraceIdRatioBasedSamplerFactory::Create(settings.ratio);
      break;
  }
  // Links are for a pass what a parent is for any other span: who does not heed the one heeds no other.
  if (!settings.parent_based) return sampler;
  return SampledByLinks(
      sdk::ParentBasedSamplerFactory::Create(std::shared_ptr<sdk::Sampler>(std::move(sampler))));
}

std::unique_ptr<sdk::SpanExporter> MakeOtlpExporter(const TracingSettings& settings) {
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

// What stops the provider, which may take as long as an export, shares this with who waits for it.
struct Goodbye {
  concurrency::Mutex mutex;
  concurrency::CondVar changed;
  bool done TANDEM_GUARDED_BY(mutex) = false;
};

}  // namespace

struct Tracing::Parts {
  Parts(std::string text, std::unique_ptr<sdk::SpanProcessor> processor, const Resource& resource,
        std::unique_ptr<sdk::Sampler> sampler, bool parent_decides, const concurrency::Clock& clock)
      : description(std::move(text)),
        provider(
            sdk::TracerProviderFactory::Create(std::move(processor), resource, std::move(sampler))),
        tracer(clock, provider->GetTracer("tandem"), parent_decides) {}

  const std::string description;
  std::shared_ptr<std::atomic<bool>> closing = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<sdk::TracerProvider> provider;
  OtelTracer tracer;
};

absl::StatusOr<std::unique_ptr<Tracing>> Tracing::FromEnvironment(const TracingOptions& options,
                                                                  const concurrency::Clock& clock) {
  TANDEM_ASSIGN_OR_RETURN(
      const std::optional<TracingSettings> settings,
      ReadTracingSettings([](const char* name) -> const char* { return std::getenv(name); }));
  if (!settings.has_value()) return std::unique_ptr<Tracing>(new Tracing(nullptr));
  TakeOverOtelLog();
  sdk::BatchSpanProcessorOptions batches;
  batches.max_queue_size = settings->queue_size;
  batches.max_export_batch_size = settings->batch_size;
  batches.schedule_delay_millis =
      std::chrono::milliseconds(absl::ToInt64Milliseconds(settings->delay));
  const auto closing = std::make_shared<std::atomic<bool>>(false);
  auto parts = std::make_unique<Parts>(
      absl::StrCat("otlp ", settings->endpoint, settings->tls ? " (TLS)" : "", ", sampler ",
                   settings->sampler_text),
      sdk::BatchSpanProcessorFactory::Create(
          std::make_unique<WatchedExporter>(MakeOtlpExporter(*settings), settings->endpoint,
                                            closing),
          batches),
      MakeResource(options, settings->resource), MakeSampler(*settings), settings->parent_based,
      clock);
  parts->closing = closing;
  return std::unique_ptr<Tracing>(new Tracing(std::move(parts)));
}

std::unique_ptr<Tracing> Tracing::ForExporter(const TracingOptions& options,
                                              const concurrency::Clock& clock,
                                              std::unique_ptr<sdk::SpanExporter> exporter,
                                              double ratio) {
  TANDEM_CHECK(ratio >= 0 && ratio <= 1) << "a ratio of " << ratio;
  TracingSettings settings;
  settings.sampler = TracingSettings::Sampler::kRatio;
  settings.ratio = ratio;
  auto parts = std::make_unique<Parts>(
      absl::StrCat("an exporter of the caller, sampler parentbased_traceidratio ", ratio),
      sdk::SimpleSpanProcessorFactory::Create(std::move(exporter)), MakeResource(options, {}),
      MakeSampler(settings), settings.parent_based, clock);
  return std::unique_ptr<Tracing>(new Tracing(std::move(parts)));
}

Tracing::Tracing(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

// The SDK's Shutdown knows no limit, and an export under way cannot be cancelled: it ends at its own
// timeout, as late as that may be. So a thread of its own does it, and is left behind when it takes too long.
Tracing::~Tracing() {
  if (parts_ == nullptr) return;
  *parts_->closing = true;
  const auto goodbye = std::make_shared<Goodbye>();
  std::thread thread([goodbye, provider = parts_->provider] {
    provider->Shutdown();
    concurrency::MutexLock lock(goodbye->mutex);
    goodbye->done = true;
    goodbye->changed.NotifyAll();
  });
  const concurrency::SteadyClock clock;
  const absl::Duration end = clock.Now() + kMostGoodbye;
  concurrency::MutexLock lock(goodbye->mutex);
  while (!goodbye->done && clock.Now() < end) {
    goodbye->changed.WaitFor(goodbye->mutex, end - clock.Now());
  }
  const bool done = goodbye->done;
  lock.Unlock();
  if (done) {
    thread.join();
  } else {
    thread.detach();
  }
}

Tracer* Tracing::tracer() { return parts_ == nullptr ? nullptr : &parts_->tracer; }

std::string Tracing::Describe() const { return parts_ == nullptr ? "off" : parts_->description; }

void Tracing::Flush(absl::Duration within) {
  if (parts_ == nullptr) return;
  parts_->provider->ForceFlush(absl::ToChronoMicroseconds(within));
}

}  // namespace tandem::telemetry
