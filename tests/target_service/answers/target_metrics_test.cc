// The metrics of a target after passes that are known.
#include "target_service/answers/target_metrics.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <atomic>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/target_service/harness.h"

namespace tandem::target_service::target_metrics_test {
namespace {

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};

// "name{labels}" to value.
using Values = std::map<std::string, double>;

Values Scrape(const Harness& harness, const EngineInfo& engine = {}) {
  const std::string text =
      prometheus::TextSerializer().Serialize(harness.watchers->metrics().Collect(
          harness.device->load(), harness.device->active_sequences(), engine));
  Values values;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (line[0] == '#') continue;
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    double value = 0;
    EXPECT_TRUE(absl::SimpleAtod(parts.second, &value)) << line;
    EXPECT_TRUE(values.emplace(parts.first, value).second) << line << " is there twice";
  }
  return values;
}

// A target whose passes take `pass`.
struct Target {
  Target() : harness(Options(), Model()) {}
  testing::TableModelOptions Model() {
    testing::TableModelOptions model;
    model.before_pass = [this](absl::Span<const model::ForwardPart>) {
      harness.clock.Advance(pass);
      return std::exchange(failure, absl::OkStatus());
    };
    return model;
  }

  absl::Duration pass = absl::Milliseconds(3);
  absl::Status failure;
  Harness harness;
};

TEST(TargetMetricsTest, AllIsThereBeforeAnythingHappens) {
  const Values values = Scrape(Target().harness);
  for (const char* status : {"OK", "NEED_PREFIX", "STALE", "INVALID", "NO_SLOT", "EXPIRED",
                             "DRAINING", "CLOSED", "INTERNAL"}) {
    EXPECT_EQ(values.at(absl::StrCat("tandem:target_steps_total{status=\"", status, "\"}")), 0);
  }
  for (const char* name : {"passes_total", "busy_seconds_total", "candidates_total",
                           "active_sequences", "queued_rows", "switched_off_paths"}) {
    EXPECT_EQ(values.at(absl::StrCat("tandem:target_", name)), 0) << name;
  }
  EngineInfo engine;
  engine.switched_off = {"spans", "spans-graphs"};
  EXPECT_EQ(Scrape(Target().harness, engine).at("tandem:target_switched_off_paths"), 2);
  EXPECT_EQ(values.at("tandem:target_free_slots"), 64);
  for (const char* name : {"pass_seconds", "pass_rows", "pass_sequences", "step_queue_seconds",
                           "step_compute_seconds"}) {
    EXPECT_EQ(values.at(absl::StrCat("tandem:target_", name, "_count")), 0) << name;
    EXPECT_EQ(values.at(absl::StrCat("tandem:target_", name, "_sum")), 0) << name;
    EXPECT_EQ(values.at(absl::StrCat("tandem:target_", name, "_bucket{le=\"+Inf\"}")), 0) << name;
  }
}

TEST(TargetMetricsTest, CountsWhatWasDone) {
  Target target;
  Harness& harness = target.harness;
  auto stream = harness.Connect();
  auto other = harness.Connect("other");
  // One pass of 7 and 5 rows after 2 ms in line; one of 4, which takes 20 ms longer.
  Harness::Send(stream, {FirstStep(1, kPrompt, {1, 2})});
  Harness::Send(other, {FirstStep(1, kPrompt)});
  harness.clock.Advance(absl::Milliseconds(2));
  harness.RunAll();
  ASSERT_EQ(stream.sink->Take().size(), 1u);
  target.pass += absl::Milliseconds(20);
  ASSERT_EQ(harness.Ask(stream, MakeStep(1, 2, kPrompt, 5, {2, 1, 0})).status(),
            internal::v1::STATUS_OK);
  harness.clock.Advance(absl::Milliseconds(5));  // it is not waited for (gathering.h)
  // Refused: one by its form, one by what is held. One fails with its pass.
  internal::v1::Step invalid = FirstStep(2, kPrompt);
  invalid.add_parents(0);
  harness.Ask(stream, invalid);
  harness.Ask(stream, MakeStep(9, 1, kPrompt, 5, {1}));
  target.pass = absl::Milliseconds(1);
  target.failure = absl::InternalError("out of order");
  harness.Ask(stream, FirstStep(3, kPrompt, {1}));

  Values values = Scrape(target.harness);
  auto value = [&values](const std::string& name) { return values.at("tandem:target_" + name); };
  EXPECT_EQ(value("steps_total{status=\"OK\"}"), 3);
  EXPECT_EQ(value("steps_total{status=\"INVALID\"}"), 1);
  EXPECT_EQ(value("steps_total{status=\"NEED_PREFIX\"}"), 1);
  EXPECT_EQ(value("steps_total{status=\"INTERNAL\"}"), 1);
  EXPECT_EQ(value("candidates_total"), 5) << "of those that were checked";
  EXPECT_EQ(value("passes_total"), 3);
  EXPECT_NEAR(value("busy_seconds_total"), 0.027, 1e-9);
  EXPECT_EQ(value("pass_seconds_count"), 3);
  EXPECT_NEAR(value("pass_seconds_sum"), 0.027, 1e-9);
  EXPECT_EQ(value("pass_seconds_bucket{le=\"0.001\"}"), 1);
  EXPECT_EQ(value("pass_seconds_bucket{le=\"0.005\"}"), 2);
  EXPECT_EQ(value("pass_seconds_bucket{le=\"0.01\"}"), 2);
  EXPECT_EQ(value("pass_seconds_bucket{le=\"0.025\"}"), 3);
  EXPECT_EQ(value("pass_rows_count"), 3);
  EXPECT_EQ(value("pass_rows_sum"), 12 + 4 + 6);
  EXPECT_EQ(value("pass_rows_bucket{le=\"4\"}"), 1) << "the boundary is within";
  EXPECT_EQ(value("pass_rows_bucket{le=\"8\"}"), 2);
  EXPECT_EQ(value("pass_rows_bucket{le=\"16\"}"), 3);
  EXPECT_EQ(value("pass_sequences_sum"), 2 + 1 + 1);
  EXPECT_EQ(value("pass_sequences_bucket{le=\"1\"}"), 2);
  EXPECT_EQ(value("step_queue_seconds_count"), 3);
  EXPECT_NEAR(value("step_queue_seconds_sum"), 2 * 0.002, 1e-9);
  EXPECT_EQ(value("step_compute_seconds_count"), 3);
  EXPECT_NEAR(value("step_compute_seconds_sum"), 2 * 0.003 + 0.023, 1e-9);
  EXPECT_EQ(value("step_compute_seconds_bucket{le=\"0.025\"}"), 3);
  EXPECT_EQ(value("step_compute_seconds_bucket{le=\"0.01\"}"), 2);
  const v1::Load load = harness.device->load();  // which counts for itself
  EXPECT_EQ(value("passes_total"), load.passes());
  EXPECT_NEAR(value("busy_seconds_total"), static_cast<double>(load.busy_us()) / 1e6, 1e-9);
  EXPECT_EQ(value("pass_rows_sum"), load.pass_rows());
  EXPECT_EQ(value("pass_sequences_sum"), load.pass_sequences());
  EXPECT_EQ(value("active_sequences"), 2);
  EXPECT_EQ(value("free_slots"), 62);
  EXPECT_EQ(value("queued_rows"), 0);
}

TEST(TargetMetricsTest, ThePoolsUseIsARatio) {
  TargetMetrics metrics;
  const auto ratio = [&](std::optional<uint64_t> free_tokens, int64_t pool_tokens) {
    v1::Load load;
    if (free_tokens.has_value()) load.set_free_tokens(*free_tokens);
    EngineInfo engine;
    engine.pool_tokens = pool_tokens;
    std::optional<double> value;
    for (const prometheus::MetricFamily& family : metrics.Collect(load, 0, engine)) {
      if (family.name == "tandem:target_kv_cache_usage_ratio") {
        value = family.metric.at(0).gauge.value;
      }
    }
    return value;
  };
  EXPECT_EQ(ratio(1000, 1000), 0);
  EXPECT_EQ(ratio(250, 1000), 0.75);
  EXPECT_EQ(ratio(0, 1000), 1);
  EXPECT_EQ(ratio(1016, 1000), 0) << "whole pages may be a little more";
  EXPECT_EQ(ratio(std::nullopt, 1000), std::nullopt);
  EXPECT_EQ(ratio(0, 0), std::nullopt) << "the engine does not say";
}

TEST(TargetMetricsTest, TellsWhatWaits) {
  testing::TableModelOptions model;
  model.max_rows = 64;
  Harness harness({}, model);
  auto stream = harness.Connect();
  Harness::Send(stream, {FirstStep(1, std::vector<uint32_t>(150, 3))});
  harness.device->RunOnce();
  const Values values = Scrape(harness);
  EXPECT_EQ(values.at("tandem:target_queued_rows"), 86);
  EXPECT_EQ(values.at("tandem:target_pass_rows_sum"), 64);
  EXPECT_EQ(values.at("tandem:target_steps_total{status=\"OK\"}"), 0);
  EXPECT_EQ(values.at("tandem:target_active_sequences"), 1);
}

// What a counter has reached it keeps, whoever reads it meanwhile.
TEST(TargetMetricsTest, IsReadWhileTheDeviceRuns) {
  Target target;
  auto stream = target.harness.Connect();
  std::atomic<int> scrapes{0};
  std::atomic<bool> done{false};
  std::thread reader([&target, &scrapes, &done] {
    Values before;
    while (!done) {
      const Values now = Scrape(target.harness);
      for (const auto& [name, value] : before) {
        if (name.find("_total") == std::string::npos) continue;
        EXPECT_GE(now.at(name), value) << name;
      }
      for (const char* name : {"queue", "compute"}) {
        EXPECT_EQ(now.at(absl::StrCat("tandem:target_step_", name, "_seconds_count")),
                  now.at("tandem:target_steps_total{status=\"OK\"}"));
      }
      for (const char* name : {"seconds", "rows", "sequences"}) {
        EXPECT_EQ(now.at(absl::StrCat("tandem:target_pass_", name, "_count")),
                  now.at("tandem:target_passes_total"));
      }
      EXPECT_EQ(now.at("tandem:target_pass_seconds_sum"),
                now.at("tandem:target_busy_seconds_total"));
      before = now;
      ++scrapes;
    }
  });
  target.harness.Ask(stream, FirstStep(1, kPrompt));
  int rounds = 1;
  while (scrapes < 20) {
    ++rounds;
    target.harness.Ask(stream, MakeStep(1, static_cast<uint64_t>(rounds), kPrompt, 5, {1}));
  }
  done = true;
  reader.join();
  const Values values = Scrape(target.harness);
  EXPECT_EQ(values.at("tandem:target_steps_total{status=\"OK\"}"), rounds);
  EXPECT_EQ(values.at("tandem:target_passes_total"), rounds);
  EXPECT_EQ(values.at("tandem:target_pass_seconds_count"), rounds);
  EXPECT_EQ(values.at("tandem:target_candidates_total"), rounds - 1);
}

}  // namespace
}  // namespace tandem::target_service::target_metrics_test
