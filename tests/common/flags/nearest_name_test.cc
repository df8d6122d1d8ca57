#include "common/flags/nearest_name.h"

#include "gtest/gtest.h"

namespace tandem::flags {
namespace {

TEST(NearestNameTest, TakesTheFewestChanges) {
  EXPECT_EQ(NearestName("tops-k", {"top-p", "top-k", "stop"}), "top-k");
  EXPECT_EQ(NearestName("stpo", {"top-k", "stop"}), "stop");
  EXPECT_EQ(NearestName("stop", {"stop"}), "stop");
}

// A long name may differ in more characters than a short one.
TEST(NearestNameTest, IsNotFarAway) {
  EXPECT_EQ(NearestName("most-active-requests", {"grace", "max-active-requests"}),
            "max-active-requests");
  EXPECT_EQ(NearestName("abc", {"abcde"}), "abcde");
  EXPECT_EQ(NearestName("abc", {"abcdef", "xyz"}), "");
  EXPECT_EQ(NearestName("quite-another", {"number", "text"}), "");
  EXPECT_EQ(NearestName("a", {}), "");
}

}  // namespace
}  // namespace tandem::flags
