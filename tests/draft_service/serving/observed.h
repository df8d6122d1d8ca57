// A draft service whose Advances are watched, on a clock that a test holds in its hand.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/messages/trace_context.h"
#include "tests/draft_service/harness.h"
#include "tests/support/fake_tracer.h"

namespace tandem::draft_service {

using telemetry::SpanContext;
using testing::FakeSpan;
using testing::FakeTracer;

inline const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};
inline constexpr absl::Duration kPassTime = absl::Microseconds(100);

inline SpanContext Context(uint8_t number, bool sampled = true) {
  SpanContext context;
  context.trace_id[15] = 9;
  context.span_id[7] = number;
  context.flags = sampled ? SpanContext::kSampled : 0;
  return context;
}

inline internal::v1::DraftRequest Traced(internal::v1::DraftRequest request,
                                         const SpanContext& context) {
  *request.mutable_advance()->mutable_trace() = messages::ToWire(context);
  return request;
}

// Every pass of the model takes kPassTime of the fake clock.
class DraftObserved : public ::testing::Test {
 protected:
  DraftObserved()
      : tracer_(tracer_clock_), draft_(WithTracer(), Model()), stream_(draft_.Connect()) {}

  Options WithTracer() {
    Options options;
    options.tracer = &tracer_;
    options.max_sequences = 3;
    options.instance_id = "draft-7";
    return options;
  }
  testing::TableModelOptions Model() {
    testing::TableModelOptions options;
    options.before_pass = [this](absl::Span<const model::ForwardPart>) {
      draft_.clock.Advance(kPassTime);
      return absl::OkStatus();
    };
    return options;
  }

  // The only span since the last call.
  FakeSpan TheSpan() {
    std::vector<FakeSpan> spans = tracer_.Take();
    TANDEM_CHECK(spans.size() == 1) << spans.size() << " spans";
    return spans[0];
  }
  testing::FakeClock tracer_clock_;
  FakeTracer tracer_;
  Harness draft_;
  Harness::Stream stream_;
};

}  // namespace tandem::draft_service
