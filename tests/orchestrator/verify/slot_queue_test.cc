#include "orchestrator/verify/slot_queue.h"

#include "common/concurrency/instant.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/verify/target_slots.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SlotQueue, PriorityThenArrival) {
  SlotQueue line;
  line.Join(4, 0);
  line.Join(2, 0);
  line.Join(3, 7);
  line.Join(5, 10);
  line.Join(1, 7);
  EXPECT_THAT(line.Sessions(), ElementsAre(5, 1, 3, 2, 4));
  EXPECT_EQ(line.size(), 5u);
}

TEST(SlotQueue, WhoJoinsTwiceKeepsItsPlaceAndWhoLeavesIsGone) {
  SlotQueue line;
  line.Join(1, 0);
  line.Join(2, 0);
  line.Join(1, 0);
  EXPECT_THAT(line.Sessions(), ElementsAre(1, 2));
  line.Leave(1, 0);
  line.Leave(1, 0);
  EXPECT_THAT(line.Sessions(), ElementsAre(2));
  line.Leave(2, 0);
  EXPECT_TRUE(line.empty());
  EXPECT_THAT(line.Sessions(), IsEmpty());
}

const concurrency::Instant kNow = concurrency::Instant(absl::Hours(1));
const absl::Duration kRetry = absl::Milliseconds(50);

TEST(TargetSlots, UnknownBeforeTheFirstReportThenCounted) {
  TargetSlots slots;
  EXPECT_TRUE(slots.Follow(7));
  EXPECT_FALSE(slots.Follow(7));
  EXPECT_TRUE(slots.may_take());
  EXPECT_FALSE(slots.surely_has());
  slots.Took();
  EXPECT_TRUE(slots.may_take()) << "still unknown";
  slots.Reported(2, kNow);
  EXPECT_TRUE(slots.surely_has());
  slots.Took();
  slots.Took();
  EXPECT_FALSE(slots.may_take());
  slots.Freed();
  EXPECT_TRUE(slots.may_take());
}

TEST(TargetSlots, OneThatIsFullIsTriedByOneWhenItsTimeIsOver) {
  TargetSlots slots;
  slots.Follow(7);
  slots.Full(kNow + kRetry);
  slots.LetOneTry(kNow, kNow + kRetry);
  EXPECT_FALSE(slots.may_take());
  slots.LetOneTry(kNow + kRetry, kNow + 2 * kRetry);
  EXPECT_TRUE(slots.may_take());
  slots.Took();
  slots.LetOneTry(kNow + kRetry, kNow + 2 * kRetry);
  EXPECT_FALSE(slots.may_take()) << "one only";
  slots.LetOneTry(kNow + 2 * kRetry, kNow + 3 * kRetry);
  EXPECT_TRUE(slots.may_take());
}

TEST(TargetSlots, ANewStreamBeginsAnew) {
  TargetSlots slots;
  slots.Follow(7);
  slots.Full(kNow + kRetry);
  slots.Drains();
  EXPECT_TRUE(slots.draining());
  EXPECT_TRUE(slots.Follow(8));
  EXPECT_FALSE(slots.draining());
  EXPECT_TRUE(slots.may_take());
  EXPECT_EQ(slots.incarnation(), 8u);
}

}  // namespace
}  // namespace tandem::orchestrator
