#include "target_service/sequences/room_line.h"

#include <gtest/gtest.h>

#include "common/concurrency/instant.h"

namespace tandem::target_service {
namespace {

const concurrency::Instant kNow = concurrency::Instant(absl::Hours(5));
const concurrency::Instant kLater = kNow + absl::Milliseconds(500);

// Sequence numbers do not matter unless they are named.
int64_t KeptFromNew(RoomLine& line, StreamId stream, uint32_t priority = 0) {
  return line.KeptFrom(stream, SequenceId{1000}, priority, kNow);
}

TEST(RoomLine, WhoComesLaterLeavesItsRoomToTheOneThatWaits) {
  RoomLine line;
  line.Add(StreamId{1}, 800);
  line.Want(StreamId{1}, SequenceId{5}, 0, 600, kLater);
  EXPECT_EQ(KeptFromNew(line, StreamId{1}), 600) << "of its own stream";
  EXPECT_EQ(line.KeptFrom(StreamId{1}, SequenceId{5}, 0, kNow), 0) << "not from itself";
  EXPECT_EQ(line.KeptFrom(StreamId{1}, kNow), 0) << "the stream as a whole may have it";
  line.Want(StreamId{1}, SequenceId{6}, 0, 200, kLater);
  EXPECT_EQ(line.KeptFrom(StreamId{1}, SequenceId{6}, 0, kNow), 600);
  EXPECT_EQ(KeptFromNew(line, StreamId{1}), 800);
  line.Want(StreamId{1}, SequenceId{5}, 0, 600, kLater);
  EXPECT_EQ(line.KeptFrom(StreamId{1}, SequenceId{5}, 0, kNow), 0) << "it keeps its place";
  line.Forget(StreamId{1}, SequenceId{5});
  EXPECT_EQ(KeptFromNew(line, StreamId{1}), 200);
  line.Forget(StreamId{1});
  EXPECT_EQ(line.waiting(), 0u);
  EXPECT_EQ(KeptFromNew(line, StreamId{1}), 0);
}

TEST(RoomLine, WithinAStreamPriorityGoesFirst) {
  RoomLine line;
  line.Want(StreamId{1}, SequenceId{5}, 0, 600, kLater);
  line.Want(StreamId{1}, SequenceId{6}, 10, 700, kLater);
  EXPECT_EQ(line.KeptFrom(StreamId{1}, SequenceId{6}, 10, kNow), 0);
  EXPECT_EQ(line.KeptFrom(StreamId{1}, SequenceId{5}, 0, kNow), 700);
  EXPECT_EQ(KeptFromNew(line, StreamId{1}, 5), 700);
  EXPECT_EQ(KeptFromNew(line, StreamId{1}, 10), 700) << "it came later";
  EXPECT_EQ(KeptFromNew(line, StreamId{1}), 1300);
}

TEST(RoomLine, WhoStoppedAskingIsForgotten) {
  RoomLine line;
  line.Want(StreamId{1}, SequenceId{5}, 0, 600, kLater);
  line.Want(StreamId{1}, SequenceId{6}, 0, 100, kLater);
  line.Extend(StreamId{1}, SequenceId{6}, kLater + absl::Seconds(1));
  line.Extend(StreamId{1}, SequenceId{7}, kLater + absl::Seconds(1));
  EXPECT_EQ(KeptFromNew(line, StreamId{2}), 600);
  EXPECT_EQ(line.KeptFrom(StreamId{2}, SequenceId{1}, 0, kLater), 100);
  EXPECT_EQ(line.waiting(), 1u);
}

TEST(RoomLine, StreamsTakeTurns) {
  RoomLine line;
  line.Add(StreamId{3}, 6000);  // so that the others are below their shares
  line.Want(StreamId{1}, SequenceId{5}, 0, 600, kLater);
  line.Want(StreamId{1}, SequenceId{6}, 0, 500, kLater);
  line.Want(StreamId{2}, SequenceId{5}, 0, 300, kLater);
  EXPECT_EQ(line.KeptFrom(StreamId{1}, SequenceId{5}, 0, kNow), 0);
  EXPECT_EQ(line.KeptFrom(StreamId{2}, SequenceId{5}, 0, kNow), 600) << "for the first one alone";
  EXPECT_EQ(KeptFromNew(line, StreamId{3}), 900);
  // It gets room: the turn is the other one's, who has waited for longer.
  line.Forget(StreamId{1}, SequenceId{5});
  line.Add(StreamId{1}, 600);
  EXPECT_EQ(line.KeptFrom(StreamId{2}, SequenceId{5}, 0, kNow), 0);
  EXPECT_EQ(line.KeptFrom(StreamId{1}, SequenceId{6}, 0, kNow), 300);
}

// One short sequence after the other, of a stream that never holds much, must not keep a long one
// of another stream out.
TEST(RoomLine, AStreamThatHoldsLittleWaitsItsTurnToo) {
  RoomLine line;
  line.Add(StreamId{1}, 4000);
  line.Add(StreamId{2}, 100);
  line.Add(StreamId{3}, 10);
  line.Want(StreamId{2}, SequenceId{2}, 0, 4000, kLater);
  EXPECT_EQ(KeptFromNew(line, StreamId{3}), 4000);
  EXPECT_EQ(KeptFromNew(line, StreamId{4}), 4000);
  EXPECT_EQ(line.KeptFrom(StreamId{2}, kNow), 0);
}

TEST(RoomLine, AStreamAboveItsShareGivesWayAndKeepsNothingFromOthers) {
  RoomLine line;
  line.Add(StreamId{1}, 4000);
  line.Add(StreamId{2}, 100);
  line.Want(StreamId{1}, SequenceId{9}, 0, 700, kLater);
  EXPECT_EQ(KeptFromNew(line, StreamId{2}), 0);
  EXPECT_EQ(KeptFromNew(line, StreamId{3}), 0);
  EXPECT_EQ(line.KeptFrom(StreamId{1}, SequenceId{9}, 0, kNow), 0);
  // Though it has waited for longer.
  line.Want(StreamId{2}, SequenceId{2}, 0, 200, kLater);
  EXPECT_EQ(line.KeptFrom(StreamId{1}, SequenceId{9}, 0, kNow), 200);
  EXPECT_EQ(line.KeptFrom(StreamId{2}, SequenceId{2}, 0, kNow), 0);
  // Below its share it has its turn again.
  line.Remove(StreamId{1}, 4000);
  EXPECT_EQ(line.KeptFrom(StreamId{2}, SequenceId{2}, 0, kNow), 700);
  EXPECT_EQ(line.KeptFrom(StreamId{1}, SequenceId{9}, 0, kNow), 0);
}

}  // namespace
}  // namespace tandem::target_service
