// What is not sampled costs nothing: as many allocations as without a tracer.
#include <gtest/gtest.h>

#include "common/messages/trace_context.h"
#include "tests/support/allocations.h"
#include "tests/support/fake_tracer.h"
#include "tests/target_service/harness.h"

namespace tandem::target_service::trace_cost_test {
namespace {

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};

enum class Context { kNone, kNotSampled, kSampled };

// Of 100 rounds of two sequences, without those of the messages that are sent.
int64_t DeviceAllocations(telemetry::Tracer* tracer, Context context) {
  Options options;
  options.tracer = tracer;
  Harness target(options);
  auto stream = target.Connect();
  int64_t counted = 0;
  for (uint64_t round = 1; round <= 100; ++round) {
    std::vector<internal::v1::Step> steps;
    for (uint64_t sequence : {1, 2}) {
      internal::v1::Step step = round == 1 ? FirstStep(sequence, kPrompt, {1})
                                           : MakeStep(sequence, round, kPrompt, 5, {1});
      if (context != Context::kNone) {
        telemetry::SpanContext wait;
        wait.trace_id[0] = wait.span_id[0] = 1;
        wait.span_id[1] = static_cast<uint8_t>(sequence);
        wait.flags = context == Context::kSampled ? telemetry::SpanContext::kSampled : 0;
        *step.mutable_trace() = messages::ToWire(wait);
      }
      steps.push_back(std::move(step));
    }
    Harness::Send(stream, steps);
    const int64_t before = testing::Allocations();
    target.RunAll();
    if (round > 1) counted += testing::Allocations() - before;  // the first one opens the sequences
    EXPECT_EQ(stream.sink->Take().size(), 2u);
  }
  return counted;
}

TEST(TraceCost, WhatIsNotSampledAllocatesNothing) {
  const testing::FakeClock clock;
  testing::FakeTracer tracer(clock, false);
  const int64_t off = DeviceAllocations(nullptr, Context::kNone);
  EXPECT_GT(off, 100) << "they are counted";
  EXPECT_EQ(DeviceAllocations(nullptr, Context::kSampled), off) << "nobody traces";
  EXPECT_EQ(DeviceAllocations(&tracer, Context::kNone), off);
  EXPECT_EQ(DeviceAllocations(&tracer, Context::kNotSampled), off);
  EXPECT_EQ(tracer.asked(), 0u);

  EXPECT_GE(DeviceAllocations(&tracer, Context::kSampled), off + 300) << "three spans a round";
  EXPECT_EQ(tracer.asked(), 300u);
}

}  // namespace
}  // namespace tandem::target_service::trace_cost_test
