#include "common/transport/write_queue.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::transport {
namespace {

using ::testing::HasSubstr;
using Queue = WriteQueue<v1::GenerateReply>;

v1::GenerateReply Text(size_t bytes) {
  v1::GenerateReply reply;
  reply.mutable_delta()->set_text(std::string(bytes, 'x'));
  return reply;
}

absl::Status Push(Queue& queue, size_t bytes) { return queue.Push(Text(bytes), bytes); }

TEST(WriteQueue, GivesWhatCameFirst) {
  Queue queue({});
  for (size_t i = 1; i <= 3; ++i) ASSERT_TRUE(Push(queue, i).ok());
  for (size_t i = 1; i <= 3; ++i) EXPECT_EQ(queue.Pop().delta().text().size(), i);
  EXPECT_TRUE(queue.empty());
}

TEST(WriteQueue, HasRoomForSoManyMessages) {
  Queue queue({.max_queued = 2});
  ASSERT_TRUE(Push(queue, 10).ok());
  ASSERT_TRUE(Push(queue, 10).ok());
  const absl::Status full = Push(queue, 10);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("2 messages of 20 bytes waited"));
  EXPECT_EQ(queue.size(), 2u);
  queue.Pop();
  EXPECT_TRUE(Push(queue, 10).ok());
}

TEST(WriteQueue, HasRoomForSoManyBytes) {
  Queue queue({.max_queued_bytes = 100});
  ASSERT_TRUE(Push(queue, 60).ok());
  ASSERT_TRUE(Push(queue, 40).ok());
  const absl::Status full = Push(queue, 1);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("or 100 bytes"));
  queue.Pop();
  EXPECT_TRUE(Push(queue, 60).ok());
  EXPECT_FALSE(Push(queue, 1).ok());
  queue.Clear();
  EXPECT_TRUE(Push(queue, 100).ok());
}

TEST(WriteQueue, AMessageThatFindsNoOtherHasRoom) {
  Queue queue({.max_queued_bytes = 100});
  ASSERT_TRUE(Push(queue, 1000).ok());
  EXPECT_FALSE(Push(queue, 1).ok());
  queue.Pop();
  EXPECT_TRUE(Push(queue, 1).ok());
}

TEST(WriteQueue, BytesAreThoseOnTheWire) {
  const v1::GenerateReply reply = Text(1000);
  EXPECT_EQ(WireBytes(reply), reply.SerializeAsString().size());
  const grpc::Slice slice(std::string(77, 'x'));
  EXPECT_EQ(WireBytes(grpc::ByteBuffer(&slice, 1)), 77u);
}

}  // namespace
}  // namespace tandem::transport
