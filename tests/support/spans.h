// The spans that a test's services ended, as plain values.
//
//   SpanRecorder spans;
//   auto tracing = telemetry::Tracing::ForExporter({.service_name = "target"}, clock,
//   spans.Exporter());
//   …
//   EXPECT_THAT(spans.Finished(), Contains(Field(&FinishedSpan::name, telemetry::kStepSpan)));
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/telemetry/span_context.h"
#include "common/telemetry/tracer.h"
#include "opentelemetry/version.h"

OPENTELEMETRY_BEGIN_NAMESPACE
namespace sdk::trace {
class SpanExporter;
}
OPENTELEMETRY_END_NAMESPACE

namespace tandem::testing {

using AttributeValue = std::variant<int64_t, double, bool, std::string, std::vector<std::string>>;

struct FinishedEvent {
  std::string name;
  absl::Time at;
};

struct FinishedSpan {
  std::string service;  // service.name
  std::string name;
  telemetry::SpanKind kind = telemetry::SpanKind::kInternal;
  std::string trace_id;   // hexadecimal
  std::string span_id;    // hexadecimal
  std::string parent_id;  // hexadecimal; empty: begins its trace
  std::string trace_state;
  std::vector<telemetry::SpanContext> links;
  std::map<std::string, AttributeValue> attributes;
  std::vector<FinishedEvent> events;
  absl::Time start;
  absl::Duration duration;
  std::optional<std::string> error;  // what Fail was told
  std::map<std::string, std::string> resource;

  absl::Time end() const { return start + duration; }
  bool Has(absl::string_view attribute) const;
  // Of an attribute that is there and is one: fails the process otherwise.
  int64_t Int(absl::string_view attribute) const;
  const std::string& Text(absl::string_view attribute) const;
};

// Thread-safe. Exporters may outlive it.
class SpanRecorder {
 public:
  SpanRecorder();
  ~SpanRecorder();

  // Any number of them, e.g. one per service: all write here.
  std::unique_ptr<opentelemetry::sdk::trace::SpanExporter> Exporter();

  // In the order in which they ended.
  std::vector<FinishedSpan> Finished() const;
  // Those of that name.
  std::vector<FinishedSpan> Named(absl::string_view name) const;
  void Clear();

 private:
  struct Records;
  const std::shared_ptr<Records> records_;
};

}  // namespace tandem::testing
