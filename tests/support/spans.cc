#include "tests/support/spans.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "common/base/check.h"
#include "common/concurrency/mutex.h"
#include "opentelemetry/sdk/resource/resource.h"
#include "opentelemetry/sdk/trace/exporter.h"
#include "opentelemetry/sdk/trace/span_data.h"

namespace tandem::testing {

struct SpanRecorder::Records {
  concurrency::Mutex mutex;
  std::vector<FinishedSpan> spans TANDEM_GUARDED_BY(mutex);
};

namespace {

namespace nostd = opentelemetry::nostd;
namespace sdk = opentelemetry::sdk;
using telemetry::SpanContext;

SpanContext ToContext(const opentelemetry::trace::SpanContext& context) {
  SpanContext plain;
  std::copy_n(context.trace_id().Id().begin(), 16, plain.trace_id.begin());
  std::copy_n(context.span_id().Id().begin(), 8, plain.span_id.begin());
  plain.flags = context.trace_flags().flags();
  return plain;
}

telemetry::SpanKind ToKind(opentelemetry::trace::SpanKind kind) {
  switch (kind) {
    case opentelemetry::trace::SpanKind::kServer:
      return telemetry::SpanKind::kServer;
    case opentelemetry::trace::SpanKind::kClient:
      return telemetry::SpanKind::kClient;
    default:
      return telemetry::SpanKind::kInternal;
  }
}

AttributeValue ToValue(const sdk::common::OwnedAttributeValue& value) {
  return nostd::visit(
      [](const auto& held) -> AttributeValue {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, bool> || std::is_same_v<Held, double> ||
                      std::is_same_v<Held, std::string> ||
                      std::is_same_v<Held, std::vector<std::string>>) {
          return held;
        } else if constexpr (std::is_integral_v<Held>) {
          return static_cast<int64_t>(held);
        } else {
          TANDEM_CHECK(false) << "an attribute is a list of numbers: Span sets none";
          return int64_t{0};
        }
      },
      value);
}

FinishedSpan ToFinished(const sdk::trace::SpanData& data) {
  const SpanContext context = ToContext(data.GetSpanContext());
  FinishedSpan span;
  span.name = std::string(data.GetName().data(), data.GetName().size());
  span.kind = ToKind(data.GetSpanKind());
  span.trace_id = TraceIdHex(context);
  span.span_id = SpanIdHex(context);
  span.trace_state = data.GetSpanContext().trace_state()->ToHeader();
  if (data.GetParentSpanId().IsValid()) {
    SpanContext parent;
    std::copy_n(data.GetParentSpanId().Id().begin(), 8, parent.span_id.begin());
    span.parent_id = SpanIdHex(parent);
  }
  for (const auto& link : data.GetLinks()) span.links.push_back(ToContext(link.GetSpanContext()));
  for (const auto& [name, value] : data.GetAttributes()) span.attributes[name] = ToValue(value);
  for (const auto& event : data.GetEvents()) {
    span.events.push_back(
        {event.GetName(), absl::FromUnixNanos(event.GetTimestamp().time_since_epoch().count())});
  }
  span.start = absl::FromUnixNanos(data.GetStartTime().time_since_epoch().count());
  span.duration = absl::FromChrono(data.GetDuration());
  if (data.GetStatus() == opentelemetry::trace::StatusCode::kError) {
    span.error = std::string(data.GetDescription().data(), data.GetDescription().size());
  }
  for (const auto& [name, value] : data.GetResource().GetAttributes()) {
    const AttributeValue plain = ToValue(value);
    if (const auto* text = std::get_if<std::string>(&plain)) span.resource[name] = *text;
  }
  span.service = span.resource["service.name"];
  return span;
}

}  // namespace

bool FinishedSpan::Has(absl::string_view attribute) const {
  return attributes.count(std::string(attribute)) > 0;
}

int64_t FinishedSpan::Int(absl::string_view attribute) const {
  TANDEM_CHECK(Has(attribute)) << name << " has no " << attribute;
  return std::get<int64_t>(attributes.at(std::string(attribute)));
}

const std::string& FinishedSpan::Text(absl::string_view attribute) const {
  TANDEM_CHECK(Has(attribute)) << name << " has no " << attribute;
  return std::get<std::string>(attributes.at(std::string(attribute)));
}

SpanRecorder::SpanRecorder() : records_(std::make_shared<Records>()) {}
SpanRecorder::~SpanRecorder() = default;

std::unique_ptr<sdk::trace::SpanExporter> SpanRecorder::Exporter() {
  class RecordingExporter final : public sdk::trace::SpanExporter {
   public:
    explicit RecordingExporter(std::shared_ptr<Records> records) : records_(std::move(records)) {}

    std::unique_ptr<sdk::trace::Recordable> MakeRecordable() noexcept override {
      return std::make_unique<sdk::trace::SpanData>();
    }
    sdk::common::ExportResult Export(
        const nostd::span<std::unique_ptr<sdk::trace::Recordable>>& spans) noexcept override {
      concurrency::MutexLock lock(records_->mutex);
      for (const auto& span : spans) {
        records_->spans.push_back(ToFinished(static_cast<const sdk::trace::SpanData&>(*span)));
      }
      return sdk::common::ExportResult::kSuccess;
    }
    bool ForceFlush(std::chrono::microseconds) noexcept override { return true; }
    bool Shutdown(std::chrono::microseconds) noexcept override { return true; }

   private:
    const std::shared_ptr<Records> records_;
  };
  return std::make_unique<RecordingExporter>(records_);
}

std::vector<FinishedSpan> SpanRecorder::Finished() const {
  concurrency::MutexLock lock(records_->mutex);
  return records_->spans;
}

std::vector<FinishedSpan> SpanRecorder::Named(absl::string_view name) const {
  std::vector<FinishedSpan> spans = Finished();
  spans.erase(std::remove_if(spans.begin(), spans.end(),
                             [name](const FinishedSpan& span) { return span.name != name; }),
              spans.end());
  return spans;
}

void SpanRecorder::Clear() {
  concurrency::MutexLock lock(records_->mutex);
  records_->spans.clear();
}

}  // namespace tandem::testing
