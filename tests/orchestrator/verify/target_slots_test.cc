#include "orchestrator/verify/target_slots.h"

#include "common/concurrency/instant.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

const concurrency::Instant kNow = concurrency::Instant(absl::Hours(1));
const absl::Duration kRetry = absl::Milliseconds(50);

TEST(TargetSlots, UnknownBeforeTheFirstReportThenCounted) {
  TargetSlots slots;
  EXPECT_TRUE(slots.Follow(base::Incarnation{7}));
  EXPECT_FALSE(slots.Follow(base::Incarnation{7}));
  EXPECT_TRUE(slots.may_take());
  EXPECT_FALSE(slots.surely_has());
  slots.Took(10);
  EXPECT_TRUE(slots.may_take()) << "still unknown";
  slots.Reported({2}, kNow);
  EXPECT_TRUE(slots.surely_has());
  slots.Took(10);
  slots.Took(10);
  EXPECT_FALSE(slots.may_take());
  slots.Freed(10);
  EXPECT_TRUE(slots.may_take());
}

TEST(TargetSlots, OneThatIsFullIsTriedByOneWhenItsTimeIsOver) {
  TargetSlots slots;
  slots.Follow(base::Incarnation{7});
  slots.Full(kNow + kRetry);
  slots.LetOneTry(kNow, kNow + kRetry);
  EXPECT_FALSE(slots.may_take());
  slots.LetOneTry(kNow + kRetry, kNow + 2 * kRetry);
  EXPECT_TRUE(slots.may_take());
  slots.Took(10);
  slots.LetOneTry(kNow + kRetry, kNow + 2 * kRetry);
  EXPECT_FALSE(slots.may_take()) << "one only";
  slots.LetOneTry(kNow + 2 * kRetry, kNow + 3 * kRetry);
  EXPECT_TRUE(slots.may_take());
}

TEST(TargetSlots, RoomIsUnknownUntilItIsToldThenCounted) {
  TargetSlots slots;
  slots.Follow(base::Incarnation{7});
  EXPECT_TRUE(slots.may_have_room(1'000'000));
  slots.Reported({2}, kNow);
  EXPECT_TRUE(slots.may_have_room(1'000'000)) << "an older target says nothing of it";
  slots.Reported({.slots = 2, .tokens = 500}, kNow);
  EXPECT_TRUE(slots.may_have_room(500));
  EXPECT_FALSE(slots.may_have_room(501));
  slots.Took(200);
  EXPECT_FALSE(slots.may_have_room(301));
  slots.Freed(50);
  EXPECT_TRUE(slots.may_have_room(350));
  EXPECT_EQ(slots.room(), 350);
  slots.Follow(base::Incarnation{8});
  EXPECT_TRUE(slots.may_have_room(1'000'000));
}

TEST(TargetSlots, RoomIsAskedForNowAndThen) {
  TargetSlots slots;
  slots.Follow(base::Incarnation{7});
  EXPECT_TRUE(slots.may_ask(kNow));
  EXPECT_EQ(slots.asker(), 0u);
  slots.AskFrom(kNow + kRetry);
  slots.SetAsker(5);
  EXPECT_FALSE(slots.may_ask(kNow));
  EXPECT_TRUE(slots.may_ask(kNow + kRetry));
  slots.Follow(base::Incarnation{8});
  EXPECT_TRUE(slots.may_ask(kNow));
  EXPECT_EQ(slots.asker(), 0u);
}

TEST(TargetSlots, ANewStreamBeginsAnew) {
  TargetSlots slots;
  slots.Follow(base::Incarnation{7});
  slots.Full(kNow + kRetry);
  slots.Drains();
  EXPECT_TRUE(slots.draining());
  EXPECT_TRUE(slots.Follow(base::Incarnation{8}));
  EXPECT_FALSE(slots.draining());
  EXPECT_TRUE(slots.may_take());
  EXPECT_EQ(slots.incarnation(), base::Incarnation{8});
}

}  // namespace
}  // namespace tandem::orchestrator
