#include "common/telemetry/otel_tracer.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/concurrency/instant.h"
#include "opentelemetry/common/key_value_iterable.h"
#include "opentelemetry/common/timestamp.h"
#include "opentelemetry/context/context.h"
#include "opentelemetry/trace/span.h"
#include "opentelemetry/trace/span_context.h"
#include "opentelemetry/trace/span_context_kv_iterable.h"
#include "opentelemetry/trace/span_metadata.h"
#include "opentelemetry/trace/span_startoptions.h"
#include "opentelemetry/trace/trace_state.h"

namespace tandem::telemetry {
namespace {

namespace nostd = opentelemetry::nostd;
namespace otel = opentelemetry::trace;
using opentelemetry::common::KeyValueIterable;
using opentelemetry::common::NoopKeyValueIterable;
using opentelemetry::common::SteadyTimestamp;
using opentelemetry::common::SystemTimestamp;

nostd::string_view View(absl::string_view text) { return {text.data(), text.size()}; }

SpanContext FromOtel(const otel::SpanContext& context) {
  SpanContext mine;
  std::copy_n(context.trace_id().Id().begin(), mine.trace_id.size(), mine.trace_id.begin());
  std::copy_n(context.span_id().Id().begin(), mine.span_id.size(), mine.span_id.begin());
  mine.flags = context.trace_flags().flags();
  mine.trace_state = ParseTracestate(context.trace_state()->ToHeader());
  return mine;
}

otel::SpanContext ToOtel(const SpanContext& context) {
  return otel::SpanContext(otel::TraceId(nostd::span<const uint8_t, 16>(context.trace_id)),
                           otel::SpanId(nostd::span<const uint8_t, 8>(context.span_id)),
                           otel::TraceFlags(context.flags), /*is_remote=*/true,
                           context.trace_state == nullptr
                               ? otel::TraceState::GetDefault()
                               : otel::TraceState::FromHeader(View(*context.trace_state)));
}

otel::SpanKind ToOtel(SpanKind kind) {
  switch (kind) {
    case SpanKind::kInternal:
      return otel::SpanKind::kInternal;
    case SpanKind::kServer:
      return otel::SpanKind::kServer;
    case SpanKind::kClient:
      return otel::SpanKind::kClient;
  }
  return otel::SpanKind::kInternal;
}

// The SDK takes a time of zero for "now": with this on top, none is.
constexpr absl::Duration kNeverZero = absl::Hours(24 * 365);

SteadyTimestamp Steady(concurrency::Instant at) {
  return SteadyTimestamp(absl::ToChronoNanoseconds(at.since_epoch() + kNeverZero));
}

SystemTimestamp System(absl::Time at) {
  return SystemTimestamp(absl::ToChronoNanoseconds(at - absl::UnixEpoch()));
}

class Links final : public otel::SpanContextKeyValueIterable {
 public:
  explicit Links(absl::Span<const SpanContext> links) : links_(links) {}

  bool ForEachKeyValue(nostd::function_ref<bool(otel::SpanContext, const KeyValueIterable&)>
                           callback) const noexcept override {
    return std::all_of(links_.begin(), links_.end(), [&](const SpanContext& link) {
      return callback(ToOtel(link), NoopKeyValueIterable());
    });
  }
  size_t size() const noexcept override { return links_.size(); }

 private:
  const absl::Span<const SpanContext> links_;
};

class OtelSpan final : public Span {
 public:
  OtelSpan(const concurrency::Clock& clock, absl::Time epoch, nostd::shared_ptr<otel::Span> span)
      : clock_(clock),
        epoch_(epoch),
        span_(std::move(span)),
        context_(FromOtel(span_->GetContext())) {}
  ~OtelSpan() override { End(clock_.Now()); }

  const SpanContext& context() const override { return context_; }

  using Span::Set;
  void Set(absl::string_view name, int64_t value) override {
    span_->SetAttribute(View(name), value);
  }
  void Set(absl::string_view name, double value) override {
    span_->SetAttribute(View(name), value);
  }
  void Set(absl::string_view name, bool value) override { span_->SetAttribute(View(name), value); }
  void Set(absl::string_view name, absl::string_view value) override {
    span_->SetAttribute(View(name), View(value));
  }
  void SetList(absl::string_view name, absl::Span<const absl::string_view> values) override {
    std::vector<nostd::string_view> views;
    for (const absl::string_view value : values) views.push_back(View(value));
    span_->SetAttribute(View(name), nostd::span<const nostd::string_view>(views));
  }

  void Event(absl::string_view name, concurrency::Instant at) override {
    span_->AddEvent(View(name), System(epoch_ + at.since_epoch()));
  }
  using Span::Fail;
  void Fail(absl::string_view message) override {
    span_->SetStatus(otel::StatusCode::kError, View(message));
  }
  void End(concurrency::Instant at) override {
    if (std::exchange(ended_, true)) return;
    otel::EndSpanOptions options;
    options.end_steady_time = Steady(at);
    span_->End(options);
  }

 private:
  const concurrency::Clock& clock_;
  const absl::Time epoch_;
  const nostd::shared_ptr<otel::Span> span_;
  const SpanContext context_;
  bool ended_ = false;
};

class SampledByLinksSampler final : public opentelemetry::sdk::trace::Sampler {
 public:
  explicit SampledByLinksSampler(std::unique_ptr<Sampler> others) : others_(std::move(others)) {}

  opentelemetry::sdk::trace::SamplingResult ShouldSample(
      const otel::SpanContext& parent, otel::TraceId trace_id, nostd::string_view name,
      otel::SpanKind kind, const KeyValueIterable& attributes,
      const otel::SpanContextKeyValueIterable& links) noexcept override {
    if (!parent.IsValid() && links.size() > 0) {
      return {opentelemetry::sdk::trace::Decision::RECORD_AND_SAMPLE, nullptr,
              otel::TraceState::GetDefault()};
    }
    return others_->ShouldSample(parent, trace_id, name, kind, attributes, links);
  }
  nostd::string_view GetDescription() const noexcept override { return others_->GetDescription(); }

 private:
  const std::unique_ptr<Sampler> others_;
};

// The clock is steady, and the machine's time moves: one look at both is what all spans of the
// process are told by, so that they never disagree with each other.
absl::Time EpochOf(const concurrency::Clock& clock) {
  return absl::Now() - clock.Now().since_epoch();
}

}  // namespace

std::unique_ptr<opentelemetry::sdk::trace::Sampler> SampledByLinks(
    std::unique_ptr<opentelemetry::sdk::trace::Sampler> others) {
  return std::make_unique<SampledByLinksSampler>(std::move(others));
}

OtelTracer::OtelTracer(const concurrency::Clock& clock, nostd::shared_ptr<otel::Tracer> tracer,
                       bool parent_decides)
    : clock_(clock),
      epoch_(EpochOf(clock)),
      tracer_(std::move(tracer)),
      parent_decides_(parent_decides) {}

std::unique_ptr<Span> OtelTracer::Start(const SpanStart& start) {
  otel::StartSpanOptions options;
  if (start.parent.valid()) {
    if (parent_decides_ && !start.parent.sampled()) return nullptr;
    options.parent = ToOtel(start.parent);
  } else {
    // Otherwise the SDK would look for a parent in the thread's context.
    options.parent = opentelemetry::context::Context(otel::kIsRootSpanKey, true);
  }
  options.kind = ToOtel(start.kind);
  options.start_system_time = System(epoch_ + start.at.since_epoch());
  options.start_steady_time = Steady(start.at);
  nostd::shared_ptr<otel::Span> span =
      tracer_->StartSpan(View(start.name), NoopKeyValueIterable(), Links(start.links), options);
  if (!span->IsRecording()) return nullptr;
  return std::make_unique<OtelSpan>(clock_, epoch_, std::move(span));
}

}  // namespace tandem::telemetry
