#include "tests/support/table_model.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::vector<float> Row(const model::Logits& logits, int i) {
  return {logits.row(i).begin(), logits.row(i).end()};
}

TEST(TableModelTest, RowsFollowTheTokensHeldAndRollBack) {
  TableModel model({.vocabulary_size = 8});
  std::unique_ptr<model::Cache> cache = *model.NewCache(10);
  EXPECT_EQ(model.live_caches(), 1);
  EXPECT_EQ(model.reserved_tokens(), 10);
  std::vector<uint32_t> tokens = {1, 2, 3, 4};
  model::StepPart part{cache.get(), tokens, 2};
  model::Logits logits = *model.Step({&part, 1});
  ASSERT_EQ(logits.rows, 2);
  EXPECT_THAT(Row(logits, 0), ElementsAreArray(model.LogitsAfter({1, 2, 3})));
  EXPECT_THAT(Row(logits, 1), ElementsAreArray(model.LogitsAfter({1, 2, 3, 4})));
  cache->Truncate(1);
  std::vector<uint32_t> other = {7};
  part = {cache.get(), other, 0};
  logits = *model.Step({&part, 1});
  EXPECT_THAT(Row(logits, 0), ElementsAreArray(model.LogitsAfter({1, 7})));
  EXPECT_NE(model.LogitsAfter({1, 7}), model.LogitsAfter({2, 7}));
  EXPECT_EQ(cache->length(), 2);
  EXPECT_EQ(model.steps(), 2);
  EXPECT_EQ(model.rows(), 5);
  EXPECT_EQ(model.logits_rows(), 3);
  cache = nullptr;
  EXPECT_EQ(model.live_caches(), 0);
  EXPECT_EQ(model.reserved_tokens(), 0);
}

TEST(TableModelTest, RowsOfATreeFollowTheirPaths) {
  TableModel model({.vocabulary_size = 8});
  std::unique_ptr<model::Cache> cache = *model.NewCache(10);
  const std::vector<uint32_t> tokens = {1, 2, 3, 4, 5};
  const std::vector<int> parents = {-1, 0, 0, 1, 2};
  const std::vector<uint32_t> held = {6};
  (void)model.Step({{cache.get(), held, 1}});
  model::Logits logits = *model.Step({{cache.get(), tokens, 1, parents}});
  ASSERT_EQ(logits.rows, 4);
  EXPECT_THAT(Row(logits, 0), ElementsAreArray(model.LogitsAfter({1, 2})));
  EXPECT_THAT(Row(logits, 1), ElementsAreArray(model.LogitsAfter({1, 3})));
  EXPECT_THAT(Row(logits, 2), ElementsAreArray(model.LogitsAfter({2, 4})));
  EXPECT_THAT(Row(logits, 3), ElementsAreArray(model.LogitsAfter({3, 5})));
  EXPECT_EQ(cache->length(), 6);
  cache->Keep({0, 2, 4});
  EXPECT_EQ(cache->length(), 4);
  const std::vector<uint32_t> next = {7};
  logits = *model.Step({{cache.get(), next, 0}});
  EXPECT_THAT(Row(logits, 0), ElementsAreArray(model.LogitsAfter({5, 7})));
  cache->Truncate(3);
  logits = *model.Step({{cache.get(), next, 0}});
  EXPECT_THAT(Row(logits, 0), ElementsAreArray(model.LogitsAfter({3, 7})));
}

TEST(TableModelTest, NoiseMakesAnotherModelOfTheSameSeed) {
  TableModel target({.seed = 5});
  TableModel same({.seed = 5, .noise_seed = 9});
  TableModel draft({.seed = 5, .noise = 0.5, .noise_seed = 9});
  EXPECT_EQ(target.LogitsAfter({1, 2}), same.LogitsAfter({1, 2}));
  EXPECT_NE(target.LogitsAfter({1, 2}), draft.LogitsAfter({1, 2}));
}

TEST(TableModelTest, BadInputIsAStatusAndChangesNothing) {
  TableModel model({.vocabulary_size = 8, .most_caches = 1});
  std::unique_ptr<model::Cache> cache = *model.NewCache(2);
  EXPECT_EQ(model.NewCache(2).status().code(), absl::StatusCode::kResourceExhausted);
  std::vector<uint32_t> tokens = {1, 8};
  model::StepPart part{cache.get(), tokens, 0};
  EXPECT_THAT(model.Step({&part, 1}).status().message(), HasSubstr("token 8"));
  tokens = {1, 2, 3};
  part.tokens = tokens;
  EXPECT_THAT(model.Step({&part, 1}).status().message(), HasSubstr("no room"));
  tokens = {1, 2};
  const std::vector<int> parents = {-1, 1};
  part = {cache.get(), tokens, 0, parents};
  EXPECT_EQ(model.Step({&part, 1}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache->length(), 0);
  EXPECT_EQ(model.steps(), 0);
}

TEST(TableModelTest, BeforeStepCanFailAStep) {
  TableModel model({.before_step = [](absl::Span<const model::StepPart>) {
    return absl::InternalError("device lost");
  }});
  std::unique_ptr<model::Cache> cache = *model.NewCache(2);
  std::vector<uint32_t> tokens = {1};
  model::StepPart part{cache.get(), tokens, 0};
  EXPECT_EQ(model.Step({&part, 1}).status(), absl::InternalError("device lost"));
  EXPECT_EQ(cache->length(), 0);
}

TEST(TableModelDeathTest, MisuseAborts) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  TableModel model({.vocabulary_size = 8, .most_rows = 2});
  TableModel other({.vocabulary_size = 8});
  std::unique_ptr<model::Cache> cache = *model.NewCache(10);
  std::vector<uint32_t> tokens = {1};
  std::vector<uint32_t> three = {1, 2, 3};
  model::StepPart part{cache.get(), tokens, 0};
  std::vector<model::StepPart> twice = {part, part};
  EXPECT_DEATH((void)model.Step(twice), "twice");
  EXPECT_DEATH((void)other.Step({&part, 1}), "another model");
  EXPECT_DEATH(cache->Truncate(1), "Truncate");
  part.first_logits_row = 2;
  EXPECT_DEATH((void)model.Step({&part, 1}), "first_logits_row");
  part = {cache.get(), three, 0};
  EXPECT_DEATH((void)model.Step({&part, 1}), "3 rows");
  const std::vector<int> siblings = {-1, -1};
  part = {cache.get(), absl::MakeSpan(three).first(2), 0, siblings};
  ASSERT_TRUE(model.Step({&part, 1}).ok());
  EXPECT_DEATH(cache->Keep({0, 1}), "whose parent is -1");
  EXPECT_DEATH((void)model.Step({&part, 1}), "no path was kept");
}

}  // namespace
}  // namespace tandem::testing
