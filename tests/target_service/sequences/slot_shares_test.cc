#include "target_service/sequences/slot_shares.h"

#include <gtest/gtest.h>

#include "common/concurrency/instant.h"

namespace tandem::target_service::slot_shares_test {
namespace {

const concurrency::Instant kNow = concurrency::Instant(absl::Hours(5));
const concurrency::Instant kLater = kNow + absl::Milliseconds(150);

void TakeMany(SlotShares& shares, StreamId stream, int sequences) {
  for (int i = 0; i < sequences; ++i) shares.Add(stream);
}

TEST(SlotShares, FirstComeFirstServedWhileNobodyWaits) {
  SlotShares shares(8);
  EXPECT_EQ(shares.Free(StreamId{1}, kNow), 8u);
  TakeMany(shares, StreamId{1}, 6);
  EXPECT_EQ(shares.Free(StreamId{1}, kNow), 2u);
  EXPECT_EQ(shares.Free(StreamId{2}, kNow), 2u);
  EXPECT_EQ(shares.taken(), 6u);
}

TEST(SlotShares, GivenBackSlotsGoToTheOneBelowItsShare) {
  SlotShares shares(8);
  TakeMany(shares, StreamId{1}, 8);
  shares.Want(StreamId{2}, SequenceId{50}, kLater);
  EXPECT_EQ(shares.Free(StreamId{2}, kNow), 0u);
  shares.Remove(StreamId{1});
  EXPECT_EQ(shares.Free(StreamId{1}, kNow), 0u);
  EXPECT_EQ(shares.Free(StreamId{2}, kNow), 1u);
  // A third one, that has asked for nothing yet, is below its share too.
  EXPECT_EQ(shares.Free(StreamId{3}, kNow), 1u);
  // One more is free, and 2 waits for one only.
  shares.Remove(StreamId{1});
  EXPECT_EQ(shares.Free(StreamId{1}, kNow), 1u);
  // It has got it.
  shares.Forget(StreamId{2}, SequenceId{50});
  shares.Add(StreamId{2});
  EXPECT_EQ(shares.Free(StreamId{1}, kNow), 1u);
  EXPECT_EQ(shares.waiting(), 0u);
}

TEST(SlotShares, WhoWaitsIsForgottenInTime) {
  SlotShares shares(2);
  TakeMany(shares, StreamId{1}, 2);
  shares.Want(StreamId{2}, SequenceId{50}, kLater);
  shares.Remove(StreamId{1});
  EXPECT_EQ(shares.Free(StreamId{1}, kNow), 0u);
  EXPECT_EQ(shares.Free(StreamId{1}, kLater), 1u);
  shares.Want(StreamId{2}, SequenceId{50}, kLater);
  shares.Want(StreamId{2}, SequenceId{51}, kLater);
  EXPECT_EQ(shares.waiting(), 2u);
  shares.Forget(StreamId{2});
  EXPECT_EQ(shares.Free(StreamId{1}, kNow), 1u);
}

TEST(SlotShares, AboveItsShareAStreamReservesNothing) {
  SlotShares shares(8);
  TakeMany(shares, StreamId{1}, 6);
  TakeMany(shares, StreamId{2}, 2);
  for (uint64_t sequence = 0; sequence < 9; ++sequence) {
    shares.Want(StreamId{1}, SequenceId{sequence}, kLater);
  }
  shares.Remove(StreamId{1});
  EXPECT_EQ(shares.Free(StreamId{2}, kNow), 1u);
  EXPECT_EQ(shares.Free(StreamId{1}, kNow), 1u) << "nobody below its share waits";
  shares.Want(StreamId{2}, SequenceId{77}, kLater);
  EXPECT_EQ(shares.Free(StreamId{1}, kNow), 0u);
  EXPECT_EQ(shares.Free(StreamId{2}, kNow), 1u);
}

// More streams than slots: each may have one.
TEST(SlotShares, MoreStreamsThanSlots) {
  SlotShares shares(2);
  TakeMany(shares, StreamId{1}, 2);
  for (uint64_t stream = 2; stream < 8; ++stream) {
    shares.Want(StreamId{stream}, SequenceId{1}, kLater);
  }
  shares.Remove(StreamId{1});
  EXPECT_EQ(shares.Free(StreamId{1}, kNow), 0u);
  EXPECT_EQ(shares.Free(StreamId{5}, kNow), 1u);
}

}  // namespace
}  // namespace tandem::target_service::slot_shares_test
