#include "draft_service/drafters/drafter_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::draft_service {
namespace {

using ::testing::ElementsAre;

std::vector<DrafterFactory> Three() { return {{"a", {}, true}, {"b", {}, false}, {"c", {}, true}}; }

TEST(DrafterSet, TheDefaultComesFirstAndTheOthersKeepTheirOrder) {
  EXPECT_THAT(DrafterSet(Three(), "").names(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(DrafterSet(Three(), "a").names(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(DrafterSet(Three(), "b").names(), ElementsAre("b", "a", "c"));
  EXPECT_THAT(DrafterSet(Three(), "c").names(), ElementsAre("c", "a", "b"));
}

TEST(DrafterSet, FindsByNameAndTheDefaultWithoutOne) {
  const DrafterSet drafters(Three(), "c");
  ASSERT_NE(drafters.Find(""), nullptr);
  EXPECT_EQ(drafters.Find("")->name, "c");
  ASSERT_NE(drafters.Find("b"), nullptr);
  EXPECT_EQ(drafters.Find("b")->name, "b");
  EXPECT_FALSE(drafters.Find("b")->samples);
  EXPECT_EQ(drafters.Find("d"), nullptr);
}

}  // namespace
}  // namespace tandem::draft_service
