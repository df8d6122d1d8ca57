#include "common/serving/stream_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/serving/echo.h"

namespace tandem::serving {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class StreamTableTest : public ::testing::Test {
 protected:
  std::shared_ptr<RecordingSink> Begin(StreamId id) {
    auto sink = std::make_shared<RecordingSink>();
    streams_.Begin(
        {.stream = id, .client_id = "client", .incarnation = base::Incarnation{7}, .sink = sink});
    return sink;
  }

  StreamTable<EchoStream> streams_;
};

TEST_F(StreamTableTest, AStreamEndsOnlyWhenAllIsAnswered) {
  auto sink = Begin(StreamId{1});
  Begin(StreamId{2});
  EchoStream& stream = streams_.At(StreamId{1});
  stream.Owe();
  stream.Owe();
  EXPECT_THAT(streams_.Idle(), ElementsAre(StreamId{2}));
  EXPECT_THAT(streams_.Finished(), IsEmpty()) << "its client may send more";
  streams_.Finish(StreamId{1});
  EXPECT_THAT(streams_.Finished(), IsEmpty());
  stream.Pay();
  EXPECT_THAT(streams_.Finished(), IsEmpty());
  stream.Pay();
  EXPECT_THAT(streams_.Finished(), ElementsAre(StreamId{1}));
  EXPECT_THAT(streams_.Idle(), UnorderedElementsAre(StreamId{1}, StreamId{2}));
  EXPECT_THAT(streams_.All(), UnorderedElementsAre(StreamId{1}, StreamId{2}));
  streams_.End(StreamId{1}, absl::OkStatus());
  EXPECT_EQ(streams_.Find(StreamId{1}), nullptr);
  EXPECT_THAT(streams_.Finished(), IsEmpty());
  EXPECT_TRUE(sink->closed()->ok());
}

TEST_F(StreamTableTest, ASecondAnswerIsABug) {
  Begin(StreamId{1});
  streams_.At(StreamId{1}).Owe();
  streams_.At(StreamId{1}).Pay();
  EXPECT_DEATH(streams_.At(StreamId{1}).Pay(), "a second answer to a request");
}

TEST_F(StreamTableTest, AStreamBeginsOnce) {
  Begin(StreamId{1});
  EXPECT_DEATH(Begin(StreamId{1}), "stream 1 has begun already");
}

}  // namespace
}  // namespace tandem::serving
