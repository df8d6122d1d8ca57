// Spans, as our services make them. OpenTelemetry is behind this interface; only tracing.h knows
// it.
//
// There is no current span: parents are handed over by hand, since a round goes through many
// threads. A null Tracer means off, and a null Span means not sampled. So what is not traced costs
// a comparison.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/concurrency/instant.h"
#include "common/telemetry/attributes.h"
#include "common/telemetry/span_context.h"

namespace tandem::telemetry {

enum class SpanKind : uint8_t { kInternal, kServer, kClient };

// Not thread-safe. Times are those of the tracer's clock, so that the spans of a round partition it
// exactly.
class Span {
 public:
  virtual ~Span() = default;  // ends it now, if nobody has

  virtual const SpanContext& context() const = 0;

  // Names: attributes.h.
  virtual void Set(absl::string_view name, int64_t value) = 0;
  virtual void Set(absl::string_view name, double value) = 0;
  virtual void Set(absl::string_view name, bool value) = 0;
  virtual void Set(absl::string_view name, absl::string_view value) = 0;
  void Set(absl::string_view name, const char* value) { Set(name, absl::string_view(value)); }
  void Set(absl::string_view name, absl::Duration value) {  // in microseconds; names end in _us
    Set(name, absl::ToInt64Microseconds(value));
  }

  virtual void SetList(absl::string_view name, absl::Span<const absl::string_view> values) = 0;

  virtual void Event(absl::string_view name, concurrency::Instant at) = 0;
  virtual void Fail(absl::string_view message) = 0;  // the span's status becomes an error
  // With error.type: one of few words, such as a status's name.
  void Fail(absl::string_view type, absl::string_view message) {
    Set(kErrorType, type);
    Fail(message);
  }
  virtual void End(concurrency::Instant at) = 0;  // the first one counts
};

struct SpanStart {
  absl::string_view name;
  SpanKind kind = SpanKind::kInternal;
  concurrency::Instant at;  // may be in the past
  SpanContext parent;       // not valid: the span begins a trace
  // Contexts of sampled spans only. A span without a parent that has links is sampled on their
  // behalf.
  absl::Span<const SpanContext> links;
};

// Thread-safe.
class Tracer {
 public:
  virtual ~Tracer() = default;
  // Null: not sampled. A span with a parent is sampled when its parent is.
  virtual std::unique_ptr<Span> Start(const SpanStart& start) = 0;
};

}  // namespace tandem::telemetry
