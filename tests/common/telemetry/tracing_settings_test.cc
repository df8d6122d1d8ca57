// The standard variables of OpenTelemetry, good and bad.
#include "common/telemetry/tracing_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

namespace tandem::telemetry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Variables = std::map<std::string, std::string>;

absl::StatusOr<std::optional<TracingSettings>> Read(const Variables& variables) {
  return ReadTracingSettings([&variables](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

// Of tracing that is on.
TracingSettings On(Variables variables) {
  variables.emplace("OTEL_TRACES_EXPORTER", "otlp");
  const auto settings = Read(variables);
  EXPECT_TRUE(settings.ok()) << settings.status();
  EXPECT_TRUE(settings.ok() && settings->has_value());
  return settings.ok() ? settings->value_or(TracingSettings{}) : TracingSettings{};
}

TEST(TracingSettings, OffUnlessAskedFor) {
  for (const Variables& variables : std::vector<Variables>{
           {},
           {{"OTEL_TRACES_EXPORTER", "none"}},
           {{"OTEL_TRACES_EXPORTER", ""}},
           {{"OTEL_TRACES_EXPORTER", "none"}, {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"}},
           {{"OTEL_SDK_DISABLED", "true"}, {"OTEL_TRACES_EXPORTER", "otlp"}},
           {{"OTEL_SDK_DISABLED", "TRUE"}, {"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"}},
           {{"OTEL_SERVICE_NAME", "x"}},
           {{"OTEL_TRACES_SAMPLER", "of another program"}},
       }) {
    const auto settings = Read(variables);
    ASSERT_TRUE(settings.ok()) << settings.status();
    EXPECT_FALSE(settings->has_value());
  }
}

TEST(TracingSettings, TheDefaults) {
  const TracingSettings settings = On({});
  EXPECT_EQ(settings.endpoint, "localhost:4317");
  EXPECT_FALSE(settings.tls);
  EXPECT_EQ(settings.certificate, "");
  EXPECT_THAT(settings.headers, IsEmpty());
  EXPECT_EQ(settings.timeout, absl::Seconds(10));
  EXPECT_EQ(settings.sampler, TracingSettings::Sampler::kAlwaysOn);
  EXPECT_TRUE(settings.parent_based);
  EXPECT_EQ(settings.sampler_text, "parentbased_always_on");
  EXPECT_EQ(settings.delay, absl::Seconds(5));
  EXPECT_EQ(settings.queue_size, 2048);
  EXPECT_EQ(settings.batch_size, 512);
  EXPECT_THAT(settings.resource, IsEmpty());
}

TEST(TracingSettings, GoodValues) {
  struct Case {
    Variables variables;
    std::function<bool(const TracingSettings&)> holds;
  };
  using S = TracingSettings;
  const Case cases[] = {
      {{{"OTEL_SDK_DISABLED", "false"}}, [](const S& s) { return s.endpoint == "localhost:4317"; }},
      {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317/"}},
       [](const S& s) { return s.endpoint == "collector:4317" && !s.tls; }},
      {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://[::1]:14317"}},
       [](const S& s) { return s.endpoint == "[::1]:14317" && s.tls; }},
      {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"}}, [](const S& s) { return s.tls; }},
      {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"}, {"OTEL_EXPORTER_OTLP_INSECURE", "true"}},
       [](const S& s) { return !s.tls; }},
      {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://c:1"}, {"OTEL_EXPORTER_OTLP_INSECURE", "true"}},
       [](const S& s) { return s.tls; }},  // the scheme wins
      {{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:1"},
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://b:2"}},
       [](const S& s) { return s.endpoint == "b:2"; }},
      {{{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}}, [](const S&) { return true; }},
      {{{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"},
        {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"}},
       [](const S&) { return true; }},
      {{{"OTEL_EXPORTER_OTLP_TIMEOUT", "250"}},
       [](const S& s) { return s.timeout == absl::Milliseconds(250); }},
      {{{"OTEL_BSP_EXPORT_TIMEOUT", "300"}},
       [](const S& s) { return s.timeout == absl::Milliseconds(300); }},
      {{{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/dev/null"}},
       [](const S& s) { return s.certificate == "/dev/null"; }},
      {{{"OTEL_TRACES_SAMPLER", "always_off"}},
       [](const S& s) { return s.sampler == S::Sampler::kAlwaysOff && !s.parent_based; }},
      {{{"OTEL_TRACES_SAMPLER", "always_on"}, {"OTEL_TRACES_SAMPLER_ARG", "of no meaning here"}},
       [](const S& s) { return s.sampler == S::Sampler::kAlwaysOn && !s.parent_based; }},
      {{{"OTEL_TRACES_SAMPLER", "traceidratio"}},
       [](const S& s) { return s.sampler == S::Sampler::kRatio && s.ratio == 1; }},
      {{{"OTEL_TRACES_SAMPLER", "parentbased_traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", "0.125"}},
       [](const S& s) {
         return s.parent_based && s.ratio == 0.125 &&
                s.sampler_text == "parentbased_traceidratio 0.125";
       }},
      {{{"OTEL_BSP_SCHEDULE_DELAY", "100"},
        {"OTEL_BSP_MAX_QUEUE_SIZE", "64"},
        {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "512"}},
       [](const S& s) {
         return s.delay == absl::Milliseconds(100) && s.queue_size == 64 && s.batch_size == 64;
       }},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(c.holds(On(c.variables))) << ::testing::PrintToString(c.variables);
  }
}

TEST(TracingSettings, AnEndpointAloneTurnsItOn) {
  const auto settings = Read({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4317"}});
  ASSERT_TRUE(settings.ok());
  EXPECT_TRUE(settings->has_value());
}

TEST(TracingSettings, HeadersAndResourceAreDecoded) {
  const TracingSettings settings =
      On({{"OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20YTpi, x-tenant = a%2Cb"},
          {"OTEL_RESOURCE_ATTRIBUTES", "service.name=one,k8s.pod.name=p%3D1,empty="},
          {"OTEL_SERVICE_NAME", "two"}});
  EXPECT_THAT(settings.headers,
              ElementsAre(Pair("authorization", "Basic YTpi"), Pair("x-tenant", "a,b")));
  EXPECT_THAT(settings.resource, ElementsAre(Pair("empty", ""), Pair("k8s.pod.name", "p=1"),
                                             Pair("service.name", "two")));
}

TEST(TracingSettings, ABadValueIsNamedWithWhatWouldBeRight) {
  struct Case {
    const char* name;
    const char* value;
    const char* right;
  };
  for (const Case& c : {
           Case{"OTEL_SDK_DISABLED", "yes", "true or false"},
           Case{"OTEL_TRACES_EXPORTER", "jaeger", "otlp or none"},
           Case{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector", "HOST:PORT"},
           Case{"OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://collector:4317", "HOST:PORT"},
           Case{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4317/v1/traces",
                "HOST:PORT"},
           Case{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "grpc"},
           Case{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "grpc"},
           Case{"OTEL_EXPORTER_OTLP_INSECURE", "1", "true or false"},
           Case{"OTEL_EXPORTER_OTLP_HEADERS", "authorization", "name=value"},
           Case{"OTEL_EXPORTER_OTLP_HEADERS", "a=%zz", "name=value"},
           Case{"OTEL_EXPORTER_OTLP_HEADERS", "a b=c", "a header's name"},
           Case{"OTEL_EXPORTER_OTLP_HEADERS", "a=%0A", "a header's name"},
           Case{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "milliseconds"},
           Case{"OTEL_EXPORTER_OTLP_TIMEOUT", "0", "milliseconds"},
           Case{"OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file", "a file that can be read"},
           Case{"OTEL_TRACES_SAMPLER", "jaeger_remote", "always_on, always_off or traceidratio"},
           Case{"OTEL_BSP_SCHEDULE_DELAY", "-1", "milliseconds"},
           Case{"OTEL_BSP_EXPORT_TIMEOUT", "x", "milliseconds"},
           Case{"OTEL_BSP_MAX_QUEUE_SIZE", "0", "spans"},
           Case{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "99999999999999999999", "spans"},
           Case{"OTEL_RESOURCE_ATTRIBUTES", "service.name", "name=value"},
           Case{"OTEL_RESOURCE_ATTRIBUTES", "=x", "name=value"},
       }) {
    Variables variables = {{c.name, c.value}};
    variables.emplace("OTEL_TRACES_EXPORTER", "otlp");
    const absl::Status status = Read(variables).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.name << "=" << c.value;
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr(c.name));
    EXPECT_THAT(message, HasSubstr(c.value));
    EXPECT_THAT(message, HasSubstr(c.right));
  }
}

TEST(TracingSettings, ABadRatioIsNamed) {
  for (const char* value : {"-0.1", "1.5", "half", "nan"}) {
    const absl::Status status = Read({{"OTEL_TRACES_EXPORTER", "otlp"},
                                      {"OTEL_TRACES_SAMPLER", "parentbased_traceidratio"},
                                      {"OTEL_TRACES_SAMPLER_ARG", value}})
                                    .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr("OTEL_TRACES_SAMPLER_ARG: '"));
  }
}

}  // namespace
}  // namespace tandem::telemetry
