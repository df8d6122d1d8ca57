// A collector that is there, one that is not, one that is silent, one that comes back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/concurrency/mutex.h"
#include "common/concurrency/system_clock.h"
#include "common/telemetry/tracing.h"
#include "tests/common/telemetry/collector.h"
#include "tests/support/taken_port.h"
#include "tests/support/wait.h"

namespace tandem::telemetry {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of the process, while it lives.
class Environment {
 public:
  explicit Environment(std::map<std::string, std::string> variables)
      : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }

 private:
  const std::map<std::string, std::string> variables_;
};

class CollectorTest : public ::testing::Test {
 protected:
  std::unique_ptr<Tracing> Make(int port) {
    auto tracing = Tracing::FromEnvironment({.service_name = "tandem-target"}, clock_);
    EXPECT_TRUE(tracing.ok()) << tracing.status();
    EXPECT_THAT((*tracing)->Describe(), HasSubstr(absl::StrCat("127.0.0.1:", port)));
    return *std::move(tracing);
  }
  std::map<std::string, std::string> Variables(int port) {
    return {{"OTEL_EXPORTER_OTLP_ENDPOINT", absl::StrCat("http://127.0.0.1:", port)},
            {"OTEL_BSP_SCHEDULE_DELAY", "10"}};
  }
  void MakeSpan(Tracing& tracing, absl::string_view name) {
    const auto span = tracing.tracer()->Start({.name = name, .at = clock_.Now()});
    ASSERT_NE(span, nullptr);
  }
  std::vector<std::string> Logged() {
    concurrency::MutexLock lock(mutex_);
    return logged_;
  }
  bool WaitForLines(size_t count) {
    return testing::WaitUntil([this, count] { return Logged().size() >= count; });
  }

  concurrency::SteadyClock clock_;
  concurrency::Mutex mutex_;
  std::vector<std::string> logged_ TANDEM_GUARDED_BY(mutex_);
  const base::ScopedLogSink sink_{[this](const base::LogEntry& entry) {
    concurrency::MutexLock lock(mutex_);
    logged_.push_back(std::string(entry.message));
  }};
};

TEST_F(CollectorTest, GetsSpansWithTheResourceAndTheHeaders) {
  testing::Collector collector;
  auto variables = Variables(collector.port());
  variables["OTEL_EXPORTER_OTLP_HEADERS"] = "X-Tenant=blue%20one";
  variables["OTEL_RESOURCE_ATTRIBUTES"] = "deployment.environment=staging";
  variables["OTEL_BSP_SCHEDULE_DELAY"] = "3600000";  // Flush and the end send them
  const Environment environment(variables);
  auto tracing = Make(collector.port());
  MakeSpan(*tracing, "the-first");
  tracing->Flush(absl::Seconds(60));
  EXPECT_TRUE(collector.Got("the-first"));
  EXPECT_TRUE(collector.Got("tandem-target"));
  EXPECT_TRUE(collector.Got("staging"));
  EXPECT_EQ(collector.Header("x-tenant"), "blue one");
  EXPECT_EQ(collector.Header(":path"),
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
  MakeSpan(*tracing, "the-second");
  tracing = nullptr;
  EXPECT_TRUE(collector.Got("the-second"));
  EXPECT_THAT(Logged(), IsEmpty());
}

TEST_F(CollectorTest, OneThatIsNotThereIsSaidOnce) {
  int port = 0;
  { port = testing::TakenPort().port(); }  // closed again
  const Environment environment(Variables(port));
  auto tracing = Make(port);
  MakeSpan(*tracing, "a");
  ASSERT_TRUE(WaitForLines(1));
  for (int i = 0; i < 5; ++i) {
    MakeSpan(*tracing, "b");
    tracing->Flush(absl::Seconds(60));
  }
  tracing = nullptr;
  EXPECT_THAT(Logged(), ElementsAre(AllOf(HasSubstr(absl::StrCat("127.0.0.1:", port)),
                                          HasSubstr("spans are lost"), HasSubstr("refused"))));
}

TEST_F(CollectorTest, OneThatComesBackIsSaidWithWhatWasLost) {
  auto collector = std::make_unique<testing::Collector>();
  const int port = collector->port();
  const Environment environment(Variables(port));
  auto tracing = Make(port);
  MakeSpan(*tracing, "before");
  tracing->Flush(absl::Seconds(60));
  ASSERT_TRUE(collector->Got("before"));
  collector = nullptr;
  int lost = 0;
  for (; Logged().empty(); ++lost) {  // until its end is noticed
    MakeSpan(*tracing, "meanwhile");
    tracing->Flush(absl::Seconds(60));
  }
  MakeSpan(*tracing, "meanwhile");
  tracing->Flush(absl::Seconds(60));
  ++lost;
  collector = std::make_unique<testing::Collector>(port);
  ASSERT_EQ(collector->port(), port);
  // gRPC connects again when its pause is over: until then, spans are lost.
  ASSERT_TRUE(testing::WaitUntil([&] {
    MakeSpan(*tracing, "again");
    tracing->Flush(absl::Seconds(60));
    if (!collector->Got("again")) ++lost;
    return collector->Got("again");
  }));
  ASSERT_TRUE(WaitForLines(2));
  tracing = nullptr;
  EXPECT_THAT(Logged(), ElementsAre(HasSubstr("spans are lost"),
                                    HasSubstr(absl::StrCat("again; ", lost, " were lost"))));
  EXPECT_FALSE(collector->Got("meanwhile"));
}

// Nobody waits for it longer than for two seconds, however long an export may take.
TEST_F(CollectorTest, ASilentOneHoldsNobodyUp) {
  auto silent = std::make_unique<testing::TakenPort>();
  auto variables = Variables(silent->port());
  variables["OTEL_EXPORTER_OTLP_TIMEOUT"] = "3600000";
  variables["OTEL_BSP_EXPORT_TIMEOUT"] = "3600000";
  variables["OTEL_BSP_MAX_QUEUE_SIZE"] = "10";
  const Environment environment(variables);
  auto tracing = Make(silent->port());
  for (int i = 0; i < 1000; ++i) MakeSpan(*tracing, "a");  // far more than there is place for
  tracing->Flush(absl::Milliseconds(50));
  tracing = nullptr;
  EXPECT_THAT(Logged(), IsEmpty()) << "it waited until gRPC gave the silent connection up";
  // The thread that was left behind ends with the connection.
  silent = nullptr;
  EXPECT_TRUE(WaitForLines(1));
}

// More spans than there is place for, and a collector that is well: what was lost is said, once.
TEST_F(CollectorTest, AFullQueueIsSaidOnce) {
  testing::Collector collector;
  auto variables = Variables(collector.port());
  variables["OTEL_BSP_MAX_QUEUE_SIZE"] = "4";
  const Environment environment(variables);
  auto tracing = Make(collector.port());
  const auto overflow = [&] {
    for (int i = 0; i < 1000; ++i) MakeSpan(*tracing, "a");
    tracing->Flush(absl::Seconds(60));
  };
  ASSERT_TRUE(testing::WaitUntil([&] {
    overflow();
    return !Logged().empty();
  }));
  for (int i = 0; i < 5; ++i) overflow();
  tracing = nullptr;
  EXPECT_TRUE(collector.Got("tandem-target"));
  EXPECT_THAT(Logged(), ElementsAre(AllOf(HasSubstr("spans end faster than they reach"),
                                          HasSubstr("OTEL_BSP_MAX_QUEUE_SIZE"))));
}

// A round of the samplers' own choice, whose parents mean nothing to them.
TEST_F(CollectorTest, SamplersOtherThanByParentsHeedNoLinks) {
  testing::Collector collector;
  auto variables = Variables(collector.port());
  variables["OTEL_TRACES_SAMPLER"] = "always_off";
  SpanContext link;
  link.trace_id.fill(1);
  link.span_id.fill(2);
  link.flags = SpanContext::kSampled;
  {
    const Environment environment(variables);
    auto tracing = Make(collector.port());
    EXPECT_EQ(tracing->tracer()->Start({.name = "a", .links = {&link, 1}}), nullptr);
    EXPECT_EQ(tracing->tracer()->Start({.name = "a", .parent = link}), nullptr);
  }
  variables["OTEL_TRACES_SAMPLER"] = "parentbased_always_off";
  const Environment environment(variables);
  auto tracing = Make(collector.port());
  EXPECT_EQ(tracing->tracer()->Start({.name = "a"}), nullptr);
  EXPECT_NE(tracing->tracer()->Start({.name = "a", .links = {&link, 1}}), nullptr);
  EXPECT_NE(tracing->tracer()->Start({.name = "a", .parent = link}), nullptr);
}

}  // namespace
}  // namespace tandem::telemetry
