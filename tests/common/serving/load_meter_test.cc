#include "common/serving/load_meter.h"

#include <gtest/gtest.h>

#include "tests/support/fake_clock.h"

namespace tandem::serving {
namespace {

class LoadMeterTest : public ::testing::Test {
 protected:
  void ExpectTimes(uint64_t busy_us, uint64_t idle_us) {
    const v1::Load load = meter_.Snapshot();
    EXPECT_EQ(load.busy_us(), busy_us);
    EXPECT_EQ(load.idle_us(), idle_us);
  }

  testing::FakeClock clock_;
  LoadMeter meter_{clock_};
};

TEST_F(LoadMeterTest, BusyAndIdleTimeSumUpToTheTimeSinceTheStart) {
  clock_.Advance(absl::Microseconds(100));
  ExpectTimes(0, 100);
  meter_.BeginWork();
  clock_.Advance(absl::Microseconds(30));
  meter_.BeginWork();  // it works already
  clock_.Advance(absl::Microseconds(20));
  ExpectTimes(50, 100);
  EXPECT_EQ(meter_.working_for(), absl::Microseconds(50));
  meter_.EndWork();
  meter_.EndWork();
  clock_.Advance(absl::Microseconds(7));
  ExpectTimes(50, 107);
  EXPECT_EQ(meter_.working_for(), absl::ZeroDuration());
}

TEST_F(LoadMeterTest, ADeviceThatSaysHowLongItComputedIsBusyForThat) {
  clock_.Advance(absl::Microseconds(5));
  meter_.BeginPass();
  clock_.Advance(absl::Microseconds(30));
  meter_.BeginPass();  // the next one is on its way
  clock_.Advance(absl::Microseconds(20));
  ExpectTimes(0, 5);
  EXPECT_EQ(meter_.working_for(), absl::Microseconds(50));
  meter_.EndPass(absl::Microseconds(40));
  ExpectTimes(40, 15);
  EXPECT_EQ(meter_.working_for(), absl::ZeroDuration());
}

TEST_F(LoadMeterTest, IdleTimeIsNeverBelowZero) {
  meter_.EndPass(absl::Microseconds(40));  // by another clock
  ExpectTimes(40, 0);
}

TEST_F(LoadMeterTest, CountsPassesAndTellsWhatWaits) {
  meter_.CountPass(7, 3);
  meter_.CountPass(1, 1);
  meter_.SetWaiting(5, 11);
  const v1::Load load = meter_.Snapshot();
  EXPECT_EQ(load.passes(), 2u);
  EXPECT_EQ(load.pass_rows(), 8u);
  EXPECT_EQ(load.pass_sequences(), 4u);
  EXPECT_EQ(load.free_slots(), 5u);
  EXPECT_EQ(load.queued_rows(), 11u);
  EXPECT_TRUE(load.cost_curve().empty());
}

}  // namespace
}  // namespace tandem::serving
