#include "draft_service/serving/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/concurrency/instant.h"
#include "draft_service/serving/block_reply.h"
#include "tests/draft_service/harness.h"

namespace tandem::draft_service {
namespace {

class AnswersTest : public ::testing::Test {
 protected:
  AnswersTest()
      : answers_(clock_, observer_, [this] {
          v1::Load load;
          load.set_queued_rows(++loads_);
          return load;
        }) {
    stream_.sink = sink_;
  }

  void Answer() {
    answers_.Send(
        stream_,
        RefusedBlock(SequenceId{1}, 1, messages::MakeRefusal(internal::v1::STATUS_STALE, "old")),
        {.arrived = began_, .computed = absl::Microseconds(300)});
  }

  testing::FakeClock clock_;
  const concurrency::Instant began_ = clock_.Now();
  DraftObserver observer_{nullptr};
  uint32_t loads_ = 0;
  const std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
  Stream stream_;
  Answers answers_;
};

TEST_F(AnswersTest, ABlockCarriesItsTimesAndTheLoadOfThatMoment) {
  stream_.Owe();
  stream_.Owe();
  clock_.Advance(absl::Microseconds(500));
  Answer();
  Answer();
  const std::vector<internal::v1::Block> blocks = sink_->Take();
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0].computed_us(), 300u);
  EXPECT_EQ(blocks[0].queued_us(), 200u);
  EXPECT_EQ(blocks[0].load().queued_rows(), 1u);
  EXPECT_EQ(blocks[1].load().queued_rows(), 2u);
}

TEST_F(AnswersTest, ASecondAnswerIsABug) {
  stream_.Owe();
  Answer();
  EXPECT_DEATH(Answer(), "a second answer to a request");
}

}  // namespace
}  // namespace tandem::draft_service
