#include "common/messages/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/messages/handshake.h"

namespace tandem::messages {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

uint32_t Hash(uint32_t token) { return 100 + token; }

v1::DescribeRequest Range(uint32_t from, uint32_t count) {
  v1::DescribeRequest request;
  request.set_token_hashes_from(from);
  request.set_token_hashes_count(count);
  return request;
}

TEST(FillDescription, CutsTheRangeAtTheVocabularysEnd) {
  v1::Welcome welcome;
  welcome.set_vocabulary_size(5);
  v1::DescribeReply reply;
  ASSERT_TRUE(FillDescription(Range(3, 10), welcome, Hash, reply).ok());
  EXPECT_EQ(reply.welcome().vocabulary_size(), 5u);
  EXPECT_THAT(reply.token_hashes(), ElementsAre(103u, 104u));
}

TEST(FillDescription, BeyondTheEndIsEmptyAlsoNearTheLargestNumber) {
  v1::Welcome welcome;
  welcome.set_vocabulary_size(5);
  v1::DescribeReply reply;
  ASSERT_TRUE(FillDescription(Range(4294967295u, 10), welcome, Hash, reply).ok());
  EXPECT_EQ(reply.token_hashes_size(), 0);
}

TEST(FillDescription, RefusesWhatItCannotAnswer) {
  v1::DescribeReply reply;
  absl::Status status = FillDescription(Range(0, kMaxTokenHashes + 1), {}, Hash, reply);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("131073, outside 0 to 131072"));
  EXPECT_EQ(FillDescription(Range(0, 1), {}, nullptr, reply).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(FillDescription(Range(0, 0), {}, nullptr, reply).ok());

  v1::DescribeRequest newer;
  newer.GetReflection()->MutableUnknownFields(&newer)->AddVarint(99, 1);
  status = FillDescription(newer, {}, Hash, reply);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("99"));
}

}  // namespace
}  // namespace tandem::messages
