// Spans as OpenTelemetry's SDK hands them on.
#include "common/telemetry/tracing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "opentelemetry/sdk/trace/exporter.h"
#include "tests/support/fake_clock.h"
#include "tests/support/spans.h"

namespace tandem::telemetry {
namespace {

using testing::AttributeValue;
using ::testing::ElementsAre;
using testing::FinishedSpan;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

SpanContext Remote(uint8_t flags) {
  SpanContext context;
  context.trace_id.fill(0xab);
  context.span_id.fill(0xcd);
  context.flags = flags;
  return context;
}

class TracingTest : public ::testing::Test {
 protected:
  std::unique_ptr<Tracing> Make(double ratio = 1) {
    return Tracing::ForExporter(
        {.service_name = "tandem-target", .instance_id = "t1", .version = "1.2"}, clock_,
        spans_.Exporter(), ratio);
  }

  testing::FakeClock clock_;
  testing::SpanRecorder spans_;
};

TEST_F(TracingTest, ChildrenAreOfTheirParentsTrace) {
  auto tracing = Make();
  auto root = tracing->tracer()->Start({.name = "generate", .at = clock_.Now()});
  ASSERT_NE(root, nullptr);
  EXPECT_TRUE(root->context().sampled());
  auto child = tracing->tracer()->Start(
      {.name = "round", .kind = SpanKind::kClient, .at = clock_.Now(), .parent = root->context()});
  ASSERT_NE(child, nullptr);
  EXPECT_EQ(child->context().trace_id, root->context().trace_id);
  EXPECT_NE(child->context().span_id, root->context().span_id);
  child->End(clock_.Now());
  root->End(clock_.Now());

  const std::vector<FinishedSpan> finished = spans_.Finished();
  ASSERT_THAT(finished, SizeIs(2));
  EXPECT_EQ(finished[0].name, "round");
  EXPECT_EQ(finished[0].kind, SpanKind::kClient);
  EXPECT_EQ(finished[0].parent_id, SpanIdHex(root->context()));
  EXPECT_EQ(finished[0].trace_id, TraceIdHex(root->context()));
  EXPECT_EQ(finished[1].name, "generate");
  EXPECT_EQ(finished[1].kind, SpanKind::kInternal);
  EXPECT_EQ(finished[1].parent_id, "");
  EXPECT_EQ(finished[1].service, "tandem-target");
  EXPECT_EQ(finished[1].resource.at("service.instance.id"), "t1");
  EXPECT_EQ(finished[1].resource.at("service.version"), "1.2");
}

TEST_F(TracingTest, TheTraceStateIsThatOfTheTrace) {
  auto tracing = Make();
  const auto exported = [&](const std::string& tracestate) {
    spans_.Clear();
    SpanContext parent =
        *ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    parent.trace_state = ParseTracestate(tracestate);
    const auto root = tracing->tracer()->Start({.name = "generate", .parent = parent});
    tracing->tracer()->Start({.name = "round", .parent = root->context()})->End(clock_.Now());
    root->End(clock_.Now());
    const std::vector<FinishedSpan> finished = spans_.Finished();
    EXPECT_THAT(finished, SizeIs(2));
    EXPECT_EQ(finished[0].trace_state, finished[1].trace_state);
    EXPECT_EQ(finished[1].trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
    return finished[0].trace_state;
  };
  EXPECT_EQ(exported("rojo=00f067aa0ba902b7,congo=t61"), "rojo=00f067aa0ba902b7,congo=t61");
  const std::string most = "a=1,b=" + std::string(250, 'x') + ",c=" + std::string(253, 'x');
  EXPECT_EQ(exported(most), most);
  EXPECT_EQ(exported(most + "x"), "") << "513 characters";
  EXPECT_EQ(exported("a=" + std::string(510, 'x')), "") << "a member is too long";
  EXPECT_EQ(exported("not a state"), "");
  EXPECT_EQ(exported(""), "");
}

TEST_F(TracingTest, TimesAreOfTheClockToTheNanosecond) {
  const absl::Time before = absl::Now();
  auto tracing = Make();
  const absl::Time after = absl::Now();
  const concurrency::Instant start = clock_.Now() - absl::Milliseconds(7);  // in the past
  auto span = tracing->tracer()->Start({.name = "a", .at = start});
  auto next = tracing->tracer()->Start({.name = "b", .at = start + absl::Nanoseconds(1234567)});
  span->Event("half", start + absl::Nanoseconds(600));
  span->End(start + absl::Nanoseconds(1234567));
  span->End(start + absl::Seconds(1));  // the first one counts
  clock_.Advance(absl::Milliseconds(3));
  next = nullptr;  // ends now

  const std::vector<FinishedSpan> finished = spans_.Finished();
  ASSERT_THAT(finished, SizeIs(2));
  EXPECT_GE(finished[0].start, before - absl::Milliseconds(7) - absl::Nanoseconds(1));
  EXPECT_LE(finished[0].start, after - absl::Milliseconds(7) + absl::Nanoseconds(1));
  EXPECT_EQ(finished[0].duration, absl::Nanoseconds(1234567));
  EXPECT_EQ(finished[0].end(), finished[1].start);
  EXPECT_EQ(finished[1].duration, absl::Milliseconds(10) - absl::Nanoseconds(1234567));
  ASSERT_THAT(finished[0].events, SizeIs(1));
  EXPECT_EQ(finished[0].events[0].name, "half");
  EXPECT_EQ(finished[0].events[0].at, finished[0].start + absl::Nanoseconds(600));
}

// A clock that stands at zero: the SDK takes a time of zero for "now".
TEST(TracingAtZero, ASpanMayBeginAndEndAtZero) {
  class ZeroClock final : public concurrency::Clock {
   public:
    concurrency::Instant Now() const override { return {}; }
  };
  const ZeroClock clock;
  testing::SpanRecorder spans;
  auto tracing = Tracing::ForExporter({.service_name = "s"}, clock, spans.Exporter());
  tracing->tracer()->Start({.name = "a"})->End(concurrency::Instant());
  ASSERT_THAT(spans.Finished(), SizeIs(1));
  EXPECT_EQ(spans.Finished()[0].duration, absl::ZeroDuration());
}

TEST_F(TracingTest, AttributesKeepTheirTypes) {
  auto tracing = Make();
  auto span = tracing->tracer()->Start({.name = "a", .at = clock_.Now()});
  span->Set("int", int64_t{-5});
  span->Set("double", 0.25);
  span->Set("bool", true);
  span->Set("text", "text");
  span->Set("us", absl::Microseconds(17));
  span->Set("int", int64_t{6});  // the last one counts
  span->SetList("list", {"stop", "length"});
  span->Fail("INTERNAL", "broken");
  span = nullptr;
  ASSERT_THAT(spans_.Finished(), SizeIs(1));
  const FinishedSpan finished = spans_.Finished()[0];
  EXPECT_THAT(
      finished.attributes,
      UnorderedElementsAre(Pair("int", AttributeValue(int64_t{6})),
                           Pair("double", AttributeValue(0.25)), Pair("bool", AttributeValue(true)),
                           Pair("text", AttributeValue(std::string("text"))),
                           Pair("us", AttributeValue(int64_t{17})),
                           Pair("list", AttributeValue(std::vector<std::string>{"stop", "length"})),
                           Pair(kErrorType, AttributeValue(std::string("INTERNAL")))));
  EXPECT_EQ(finished.error, "broken");
}

TEST_F(TracingTest, AParentDecidesForItsChildren) {
  // Neither ratio matters to them.
  for (const double ratio : {0.0, 1.0}) {
    auto tracing = Make(ratio);
    auto sampled = tracing->tracer()->Start(
        {.name = "a", .at = clock_.Now(), .parent = Remote(SpanContext::kSampled)});
    ASSERT_NE(sampled, nullptr);
    EXPECT_EQ(sampled->context().trace_id, Remote(0).trace_id);
    EXPECT_EQ(tracing->tracer()->Start({.name = "b", .at = clock_.Now(), .parent = Remote(0)}),
              nullptr);
  }
}

TEST_F(TracingTest, TheRatioIsOfTheTracesThatBeginHere) {
  auto none = Make(0);
  EXPECT_EQ(none->tracer()->Start({.name = "a", .at = clock_.Now()}), nullptr);
  auto half = Make(0.5);
  int sampled = 0;
  for (int i = 0; i < 4000; ++i) {
    if (half->tracer()->Start({.name = "a", .at = clock_.Now()}) != nullptr) ++sampled;
  }
  EXPECT_NEAR(sampled, 2000, 6 * 32);  // six standard deviations
  EXPECT_THAT(spans_.Finished(), SizeIs(sampled));
}

TEST_F(TracingTest, ARootWithLinksIsSampledOnTheirBehalf) {
  auto tracing = Make(0);
  const std::vector<SpanContext> links = {Remote(SpanContext::kSampled),
                                          Remote(SpanContext::kSampled)};
  auto pass = tracing->tracer()->Start({.name = "target.pass", .at = clock_.Now(), .links = links});
  ASSERT_NE(pass, nullptr);
  EXPECT_NE(pass->context().trace_id, links[0].trace_id);  // a trace of its own
  // Not for a span that has a parent: that decides.
  EXPECT_EQ(tracing->tracer()->Start(
                {.name = "b", .at = clock_.Now(), .parent = Remote(0), .links = links}),
            nullptr);
  pass = nullptr;
  ASSERT_THAT(spans_.Finished(), SizeIs(1));
  EXPECT_THAT(spans_.Finished()[0].links, ElementsAre(links[0], links[1]));
  EXPECT_EQ(spans_.Finished()[0].parent_id, "");
}

}  // namespace
}  // namespace tandem::telemetry
