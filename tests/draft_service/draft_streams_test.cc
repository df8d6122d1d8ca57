#include "draft_service/draft_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/concurrency/instant.h"
#include "draft_service/block_reply.h"
#include "tests/draft_service/harness.h"

namespace tandem::draft_service {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class DraftStreamsTest : public ::testing::Test {
 protected:
  DraftStreamsTest()
      : streams_(clock_, observer_, [this] {
          v1::Load load;
          load.set_queued_rows(++loads_);
          return load;
        }) {}

  std::shared_ptr<RecordingSink> Begin(StreamId id, const std::string& client = "client") {
    auto sink = std::make_shared<RecordingSink>();
    streams_.Begin(id, sink, client);
    return sink;
  }
  void Answer(StreamId id) {
    streams_.Send(id, RefusedBlock(1, 1, messages::MakeRefusal(v1::STATUS_STALE, "old")),
                  {.arrived = began_, .computed = absl::Microseconds(300)});
  }

  testing::FakeClock clock_;
  const concurrency::Instant began_ = clock_.Now();
  DraftObserver observer_{nullptr};
  uint32_t loads_ = 0;
  DraftStreams streams_;
};

TEST_F(DraftStreamsTest, StreamsOfAClientAreAGroupWhileItHasAny) {
  Begin(1, "one");
  Begin(2, "other");
  Begin(3, "one");
  const uint64_t first = streams_.group(1);
  EXPECT_EQ(streams_.group(3), first);
  EXPECT_NE(streams_.group(2), first);
  streams_.Erase(1);
  Begin(4, "one");
  EXPECT_EQ(streams_.group(4), first);
  streams_.Erase(3);
  streams_.Erase(4);
  Begin(5, "one");
  EXPECT_NE(streams_.group(5), streams_.group(2)) << "nobody else's";
}

TEST_F(DraftStreamsTest, AStreamEndsOnlyWhenAllIsAnswered) {
  auto sink = Begin(1);
  Begin(2);
  streams_.Owe(1);
  streams_.Owe(1);
  EXPECT_THAT(streams_.Idle(), ElementsAre(2));
  EXPECT_THAT(streams_.Finished(), IsEmpty()) << "its client may send more";
  streams_.MarkFinishing(1);
  streams_.MarkFinishing(9);  // gone
  EXPECT_THAT(streams_.Finished(), IsEmpty());
  Answer(1);
  EXPECT_THAT(streams_.Finished(), IsEmpty());
  Answer(1);
  EXPECT_THAT(streams_.Finished(), ElementsAre(1));
  EXPECT_THAT(streams_.Idle(), UnorderedElementsAre(1, 2));
  EXPECT_THAT(streams_.All(), UnorderedElementsAre(1, 2));
  EXPECT_EQ(sink->Take().size(), 2u);
  streams_.Close(1, absl::OkStatus());
  streams_.Erase(1);
  EXPECT_FALSE(streams_.Has(1));
  EXPECT_THAT(streams_.Finished(), IsEmpty());
  EXPECT_TRUE(sink->closed()->ok());
}

TEST_F(DraftStreamsTest, ABlockCarriesItsTimesAndTheLoadOfThatMoment) {
  auto sink = Begin(1);
  streams_.Owe(1);
  streams_.Owe(1);
  clock_.Advance(absl::Microseconds(500));
  Answer(1);
  Answer(1);
  const std::vector<v1::Block> blocks = sink->Take();
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].computed_us(), 300u);
  EXPECT_EQ(blocks[0].queued_us(), 200u);
  EXPECT_EQ(blocks[0].load().queued_rows(), 1u);
  EXPECT_EQ(blocks[1].load().queued_rows(), 2u);
}

TEST_F(DraftStreamsTest, ASecondAnswerIsABug) {
  Begin(1);
  streams_.Owe(1);
  Answer(1);
  EXPECT_DEATH(Answer(1), "a second answer to an Advance");
}

}  // namespace
}  // namespace tandem::draft_service
