// What GET /metrics shows of any process, and that a service's own metrics come with it.
#include "common/telemetry/metrics_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/telemetry/buckets.h"

namespace tandem::telemetry {
namespace {

using ::testing::HasSubstr;

const ProcessInfo kProcess{.service = "target", .version = "0.1.0", .instance = "a \"b\"\\"};

// The sample of that name and labels: `tandem:x{a="b"}`.
std::optional<double> Sample(const std::string& text, const std::string& name) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    double value = 0;
    if (absl::ConsumePrefix(&line, absl::StrCat(name, " ")) && absl::SimpleAtod(line, &value)) {
      return value;
    }
  }
  return std::nullopt;
}

TEST(MetricsText, HasTheProcessItself) {
  const std::string text = MetricsText(std::vector<prometheus::MetricFamily>{}, kProcess);
  EXPECT_THAT(text, HasSubstr("# TYPE tandem:build_info gauge\n"
                              "tandem:build_info{service=\"target\",version=\"0.1.0\","
                              "instance=\"a \\\"b\\\"\\\\\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE process_cpu_seconds_total counter\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE process_resident_memory_bytes gauge\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE process_start_time_seconds gauge\n"));

  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  const auto start = Sample(text, "process_start_time_seconds");
  ASSERT_TRUE(start.has_value());
  EXPECT_LE(*start, now + 1.5);  // the machine's start is told in whole seconds
  EXPECT_GT(*start, now - 600);  // the test's limit is below that
  const auto resident = Sample(text, "process_resident_memory_bytes");
  ASSERT_TRUE(resident.has_value());
  EXPECT_GT(*resident, 1 << 20);
  EXPECT_LT(*resident, 1LL << 40);
}

TEST(MetricsText, ProcessorTimeGoesOn) {
  const auto cpu = [] {
    return *Sample(MetricsText(std::vector<prometheus::MetricFamily>{}, kProcess),
                   "process_cpu_seconds_total");
  };
  const double before = cpu();
  EXPECT_GE(before, 0);
  while (cpu() <= before) {
  }
}

TEST(MetricsText, HasWhatTheServiceCollects) {
  prometheus::Registry registry;
  prometheus::BuildCounter()
      .Name("tandem:things_total")
      .Help("Things.")
      .Register(registry)
      .Add({{"status", "OK"}})
      .Increment(3);
  auto& seconds = prometheus::BuildHistogram()
                      .Name("tandem:thing_seconds")
                      .Help("Of a thing.")
                      .Register(registry)
                      .Add({}, SecondsBuckets());
  seconds.Observe(20e-6);
  seconds.Observe(100);
  const std::string text = MetricsText(registry.Collect(), kProcess);
  EXPECT_THAT(text, HasSubstr("# HELP tandem:things_total Things.\n"
                              "# TYPE tandem:things_total counter\n"
                              "tandem:things_total{status=\"OK\"} 3\n"));
  EXPECT_EQ(Sample(text, "tandem:thing_seconds_bucket{le=\"1e-05\"}"), 0);
  EXPECT_EQ(Sample(text, "tandem:thing_seconds_bucket{le=\"2.5e-05\"}"), 1);
  EXPECT_EQ(Sample(text, "tandem:thing_seconds_bucket{le=\"60\"}"), 1);
  EXPECT_EQ(Sample(text, "tandem:thing_seconds_bucket{le=\"+Inf\"}"), 2);
  EXPECT_EQ(Sample(text, "tandem:thing_seconds_count"), 2);
  EXPECT_TRUE(Sample(text, "process_start_time_seconds").has_value());
  EXPECT_EQ(text.back(), '\n');

  // As vLLM labels its own.
  ProcessInfo named = kProcess;
  named.model_name = "owner/name";
  const std::string labelled = MetricsText(registry.Collect(), named);
  EXPECT_EQ(Sample(labelled, "tandem:things_total{status=\"OK\",model_name=\"owner/name\"}"), 3);
  EXPECT_EQ(Sample(labelled, "tandem:thing_seconds_count{model_name=\"owner/name\"}"), 2);
  EXPECT_TRUE(Sample(labelled, "process_start_time_seconds").has_value()) << "of the process";
}

TEST(Buckets, Ascend) {
  for (const std::vector<double>& buckets : {SecondsBuckets(), CountBuckets()}) {
    EXPECT_EQ(std::adjacent_find(buckets.begin(), buckets.end(), std::greater_equal<>()),
              buckets.end());
  }
  EXPECT_DOUBLE_EQ(SecondsBuckets().front(), 10e-6);
  EXPECT_DOUBLE_EQ(SecondsBuckets().back(), 60);
}

}  // namespace
}  // namespace tandem::telemetry
