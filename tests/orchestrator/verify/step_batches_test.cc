#include "orchestrator/verify/step_batches.h"

#include <memory>
#include <vector>

#include "common/messages/limits.h"
#include "gtest/gtest.h"
#include "orchestrator/verify/verify_wire.h"

namespace tandem::orchestrator {
namespace {

using TokenIds = std::vector<uint32_t>;

VerifyStep FirstStep(const std::shared_ptr<const TokenIds>& prompt) {
  VerifyStep step;
  step.round = 1;
  step.setup.emplace();
  step.prefix = {0, speculation::TokenSlice(prompt, 0, prompt->size()), 77};
  return step;
}

TEST(StepBatches, WaitingStepsShareTheirPromptAndHaveItInTheMessage) {
  const auto prompt = std::make_shared<const TokenIds>(TokenIds(1000, 300));
  StepBatches batches;
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    batches.Add(base::SequenceId{sequence}, FirstStep(prompt));
    EXPECT_EQ(prompt.use_count(), 1 + static_cast<long>(sequence));
  }
  const internal::v1::Batch all = batches.Take(1 << 20);
  ASSERT_EQ(all.steps_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(all.steps(i).SerializeAsString(),
              ToWire(base::SequenceId{static_cast<uint64_t>(i) + 1}, FirstStep(prompt))
                  .SerializeAsString());
  }
  EXPECT_TRUE(batches.empty());
  EXPECT_EQ(prompt.use_count(), 1);
}

TEST(StepBatches, APromptThatDoesNotFitWaitsAsItWas) {
  const auto prompt = std::make_shared<const TokenIds>(TokenIds(1000, 300));
  StepBatches batches;
  for (uint64_t sequence = 1; sequence <= 3; ++sequence)
    batches.Add(base::SequenceId{sequence}, FirstStep(prompt));
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    const internal::v1::Batch batch = batches.Take(3000);  // a Step has some 2,000 bytes
    ASSERT_EQ(batch.steps_size(), 1);
    EXPECT_EQ(batch.steps(0).SerializeAsString(),
              ToWire(base::SequenceId{sequence}, FirstStep(prompt)).SerializeAsString());
  }
  EXPECT_TRUE(batches.empty());
}

TEST(StepBatches, AClosedSequencesStepsAreDropped) {
  const auto prompt = std::make_shared<const TokenIds>(TokenIds(10, 300));
  StepBatches batches;
  for (uint64_t sequence = 1; sequence <= 3; ++sequence)
    batches.Add(base::SequenceId{sequence}, FirstStep(prompt));
  batches.Close(base::SequenceId{2});
  const internal::v1::Batch batch = batches.Take(1 << 20);
  ASSERT_EQ(batch.close_size(), 1);
  EXPECT_EQ(batch.close(0), 2u);
  ASSERT_EQ(batch.steps_size(), 2);
  EXPECT_EQ(batch.steps(0).sequence(), 1u);
  EXPECT_EQ(batch.steps(1).sequence(), 3u);
}

TEST(StepBatches, AStepThatIsLargerThanABatchGoesAlone) {
  const auto prompt = std::make_shared<const TokenIds>(TokenIds(1000, 300));
  StepBatches batches;
  batches.Add(base::SequenceId{1}, FirstStep(prompt));
  EXPECT_EQ(batches.Take(100).steps_size(), 1);
  EXPECT_TRUE(batches.empty());
}

// As many as a target takes in a message, and Steps only when all slots are free that will be.
TEST(StepBatches, ManyClosingsGoInSeveralBatchesBeforeTheSteps) {
  constexpr uint64_t kClosings = 2 * messages::kMaxClosings + 7;
  const auto prompt = std::make_shared<const TokenIds>(TokenIds(10, 300));
  StepBatches batches;
  batches.Add(base::SequenceId{kClosings + 1}, FirstStep(prompt));
  for (uint64_t sequence = 1; sequence <= kClosings; ++sequence) {
    batches.Close(base::SequenceId{sequence});
  }
  uint64_t closed = 0;
  for (const int expected : {messages::kMaxClosings, messages::kMaxClosings, 7}) {
    ASSERT_FALSE(batches.empty());
    const internal::v1::Batch batch = batches.Take(1 << 20);
    ASSERT_EQ(batch.close_size(), expected);
    for (uint64_t sequence : batch.close()) EXPECT_EQ(sequence, ++closed);
    EXPECT_EQ(batch.steps_size(), closed == kClosings ? 1 : 0);
  }
  EXPECT_TRUE(batches.empty());
}

}  // namespace
}  // namespace tandem::orchestrator
