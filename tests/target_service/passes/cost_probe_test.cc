#include "target_service/passes/cost_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "target_service/engine/cpu/cpu_engine.h"
#include "tests/support/fake_clock.h"
#include "tests/support/table_model.h"

namespace tandem::target_service {
namespace {

class CostProbe : public ::testing::Test {
 protected:
  // A step takes `base` and `each` for a row.
  testing::TableModelOptions Timed(absl::Duration base, absl::Duration each) {
    testing::TableModelOptions options;
    options.before_pass = [this, base, each](absl::Span<const model::ForwardPart> parts) {
      int rows = 0;
      for (const model::ForwardPart& part : parts) {
        rows += static_cast<int>(part.tokens.size());
        EXPECT_EQ(part.first_logits_row, 0) << "as in verification, every row has logits";
      }
      largest_ = std::max(largest_, rows);
      clock_.Advance(base + rows * each);
      return absl::OkStatus();
    };
    return options;
  }
  scheduling::CostCurve Measure(const testing::TableModelOptions& options, absl::Duration time) {
    auto owned = std::make_unique<testing::TableModel>(options);
    const testing::TableModel& model = *owned;
    CpuEngineOptions engine_options;
    engine_options.clock = &clock_;
    const auto engine = CpuEngine::Create(engine_options, std::move(owned));
    TANDEM_CHECK_OK(engine);
    scheduling::CostCurve curve(model.max_rows());
    const concurrency::Instant began = clock_.Now();
    status_ = MeasureCosts(**engine, clock_, time, curve);
    took_ = clock_.Now() - began;
    EXPECT_EQ(model.live_caches(), 0);
    return curve;
  }

  testing::FakeClock clock_;
  absl::Duration took_;
  absl::Status status_;
  int largest_ = 0;
};

TEST_F(CostProbe, AllPointsOfAQuickModel) {
  testing::TableModelOptions options = Timed(absl::Microseconds(100), absl::Microseconds(10));
  options.max_rows = 300;
  const scheduling::CostCurve curve = Measure(options, absl::Milliseconds(500));
  EXPECT_EQ(curve.Points().size(), 10u);  // 1, 2, … 256, 300
  for (int rows : {1, 16, 200, 300}) {
    EXPECT_EQ(absl::ToInt64Microseconds(curve.Estimate(rows) + absl::Nanoseconds(500)),
              100 + 10 * rows);
  }
}

TEST_F(CostProbe, EndsInTimeWithASlowModel) {
  const scheduling::CostCurve curve =
      Measure(Timed(absl::Milliseconds(20), absl::Milliseconds(2)), absl::Milliseconds(500));
  EXPECT_LE(took_, absl::Milliseconds(522)) << "the first pass is not counted";
  EXPECT_GE(curve.Points().size(), 4u);
  EXPECT_LT(largest_, 256);
}

// The first passes of a process take many times as long as the others.
TEST_F(CostProbe, AColdStartDoesNotCount) {
  for (const int slow : {1, 2}) {
    SCOPED_TRACE(slow);
    int passes = 0;
    testing::TableModelOptions options;
    options.before_pass = [&](absl::Span<const model::ForwardPart> parts) {
      int rows = 0;
      for (const model::ForwardPart& part : parts) rows += static_cast<int>(part.tokens.size());
      clock_.Advance(++passes <= slow ? absl::Milliseconds(351)
                                      : absl::Milliseconds(19) + rows * absl::Milliseconds(1));
      return absl::OkStatus();
    };
    const scheduling::CostCurve curve = Measure(options, absl::Milliseconds(500));
    EXPECT_EQ(absl::ToInt64Milliseconds(curve.Estimate(1) + absl::Microseconds(500)), 20);
    if (slow == 1) {
      EXPECT_GE(curve.Points().size(), 4u);
    }
    EXPECT_LE(took_, absl::Milliseconds(500 + 351));
  }
}

// Of a model that reads weights from a file: the page cache holds them just after the load, and
// never again.
TEST_F(CostProbe, WhatThePageCacheHoldsIsNotMeasured) {
  bool cached = true;
  testing::TableModelOptions options;
  options.drop_pages = [&cached] { cached = false; };
  options.before_pass = [this, &cached](absl::Span<const model::ForwardPart>) {
    clock_.Advance(cached ? absl::Milliseconds(20) : absl::Seconds(2));
    cached = true;  // what was read stays until it is dropped
    return absl::OkStatus();
  };
  const scheduling::CostCurve curve = Measure(options, absl::Seconds(60));
  EXPECT_NEAR(absl::ToDoubleSeconds(curve.Estimate(1)), 2, 1e-6);
  EXPECT_NEAR(absl::ToDoubleSeconds(curve.Estimate(16)), 2, 1e-6);
}

TEST_F(CostProbe, OnePointAtLeast) {
  const scheduling::CostCurve curve =
      Measure(Timed(absl::Seconds(3), absl::ZeroDuration()), absl::Milliseconds(500));
  EXPECT_EQ(curve.Points().size(), 1u);
  EXPECT_EQ(took_, absl::Seconds(9)) << "one to warm up, and two to measure";
}

TEST_F(CostProbe, LittleRoomLeavesOutTheLargestPasses) {
  testing::TableModelOptions options = Timed(absl::Microseconds(100), absl::Microseconds(10));
  options.max_caches = 3;
  options.context_length = 20;
  const scheduling::CostCurve curve = Measure(options, absl::Milliseconds(500));
  EXPECT_EQ(largest_, 60);
  EXPECT_NEAR(absl::ToDoubleMicroseconds(curve.Estimate(60)), 700, 10);
  options.max_caches = 0;
  EXPECT_TRUE(Measure(options, absl::Milliseconds(500)).empty());
}

TEST_F(CostProbe, AnErrorEndsIt) {
  testing::TableModelOptions options;
  options.before_pass = [](absl::Span<const model::ForwardPart>) {
    return absl::InternalError("no device");
  };
  EXPECT_TRUE(Measure(options, absl::Milliseconds(500)).empty());
  EXPECT_EQ(status_.message(), "no device");
}

}  // namespace
}  // namespace tandem::target_service
