// A service that breaks the contract of language_model.h is seen: the control of all tests that run
// one on a table model. That its rows are right: tests/model/roll_back_property_test.cc.
#include "tests/support/table_model.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::testing {
namespace {

TEST(TableModelDeathTest, MisuseAborts) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  TableModel model({.vocabulary_size = 8, .max_rows = 2});
  TableModel other({.vocabulary_size = 8});
  std::unique_ptr<model::Cache> cache = *model.NewCache(10);
  std::vector<uint32_t> tokens = {1};
  std::vector<uint32_t> three = {1, 2, 3};
  model::ForwardPart part{cache.get(), tokens, 0};
  std::vector<model::ForwardPart> twice = {part, part};
  EXPECT_DEATH((void)model.Forward(twice), "twice");
  EXPECT_DEATH((void)other.Forward({&part, 1}), "another model");
  EXPECT_DEATH(cache->Truncate(1), "Truncate");
  part.first_logits_row = 2;
  EXPECT_DEATH((void)model.Forward({&part, 1}), "first_logits_row");
  part = {cache.get(), three, 0};
  EXPECT_DEATH((void)model.Forward({&part, 1}), "3 rows");
  const std::vector<int> siblings = {-1, -1};
  part = {cache.get(), absl::MakeSpan(three).first(2), 0, siblings};
  ASSERT_TRUE(model.Forward({&part, 1}).ok());
  EXPECT_DEATH(cache->Keep({0, 1}), "whose parent is -1");
  EXPECT_DEATH((void)model.Forward({&part, 1}), "no path was kept");
}

}  // namespace
}  // namespace tandem::testing
