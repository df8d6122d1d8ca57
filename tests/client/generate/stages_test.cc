#include "client/generate/stages.h"

#include "gtest/gtest.h"

namespace tandem::client {
namespace {

v1::RoundRecord Round(uint64_t draft, uint64_t network, uint64_t slot, uint64_t queue,
                      uint64_t device, uint64_t own) {
  v1::RoundRecord round;
  v1::Stages& stages = *round.mutable_stages();
  stages.set_draft_us(draft);
  stages.set_network_us(network);
  stages.set_slot_us(slot);
  stages.set_queue_us(queue);
  stages.set_device_us(device);
  stages.set_own_us(own);
  return round;
}

TEST(StagesTest, EveryStageHasItsFieldAndItsName) {
  const v1::RoundRecord round = Round(1, 20, 300, 4000, 50'000, 600'000);
  const char* names[] = {"draft", "network", "slot", "queue", "device", "own"};
  const uint64_t times[] = {1, 20, 300, 4000, 50'000, 600'000};
  for (size_t i = 0; i < kStageCount; ++i) {
    EXPECT_STREQ(Name(kStages[i]), names[i]);
    EXPECT_EQ(Microseconds(round.stages(), kStages[i]), times[i]);
  }
  EXPECT_EQ(Microseconds(round), 654'321u);
  EXPECT_EQ(Microseconds(v1::RoundRecord()), 0u);
}

TEST(StagesTest, SumsAreStageByStage) {
  const v1::Stages sum = SumStages({Round(1, 2, 3, 4, 5, 6), Round(10, 20, 30, 40, 50, 60)});
  EXPECT_EQ(sum.draft_us(), 11u);
  EXPECT_EQ(sum.network_us(), 22u);
  EXPECT_EQ(sum.slot_us(), 33u);
  EXPECT_EQ(sum.queue_us(), 44u);
  EXPECT_EQ(sum.device_us(), 55u);
  EXPECT_EQ(sum.own_us(), 66u);
}

// It is the sum that counts: the queue is never the longest of a round here.
TEST(StagesTest, TheSlowestIsThatOfAllRoundsTogether) {
  const auto slowest = SlowestStage({Round(50, 0, 0, 40, 0, 0), Round(0, 50, 0, 40, 0, 20)});
  ASSERT_TRUE(slowest.has_value());
  EXPECT_EQ(slowest->stage, Stage::kQueue);
  EXPECT_DOUBLE_EQ(slowest->share, 0.4);
  EXPECT_EQ(slowest->a_round, absl::Microseconds(40));
}

TEST(StagesTest, OfEqualsTheEarlierOneAndOfNothingNone) {
  EXPECT_EQ(SlowestStage({Round(0, 0, 7, 0, 7, 0)})->stage, Stage::kSlot);
  EXPECT_FALSE(SlowestStage({}).has_value());
  EXPECT_FALSE(SlowestStage({v1::RoundRecord()}).has_value());
}

}  // namespace
}  // namespace tandem::client
