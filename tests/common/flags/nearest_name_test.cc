#include "common/flags/nearest_name.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tandem::flags {
namespace {

TEST(NearestNameTest, TakesTheFewestChanges) {
  EXPECT_EQ(NearestName("tops-k", {"top-p", "top-k", "stop"}), "top-k");
  EXPECT_EQ(NearestName("stpo", {"top-k", "stop"}), "stop");
  EXPECT_EQ(NearestName("cdua", {"cpu", "torch-cpu", "cuda"}), "cuda")
      << "neighbours in each other's place";
  EXPECT_EQ(NearestName("stop", {"stop"}), "stop");
}

// A long name may differ in more characters than a short one.
TEST(NearestNameTest, IsNotFarAway) {
  EXPECT_EQ(NearestName("most-active-requests", {"grace", "max-active-requests"}),
            "max-active-requests");
  EXPECT_EQ(NearestName("abc", {"abcde"}), "abcde");
  EXPECT_EQ(NearestName("abx", {"abcdef", "xyz"}), "");
  EXPECT_EQ(NearestName("quite-another", {"number", "text"}), "");
  EXPECT_EQ(NearestName("a", {}), "");
}

TEST(NearestNameTest, CaseDoesNotCount) {
  EXPECT_EQ(NearestName("GREEDY", {"greedy", "lenient"}), "greedy");
}

TEST(NearestNameTest, APartIsEnoughWhereItIsOfOneAlone) {
  const std::vector<std::string> names = {"prompt-lookup", "context-ngram", "corpus-bigram"};
  EXPECT_EQ(NearestName("lookup", names), "prompt-lookup");
  EXPECT_EQ(NearestName("ngram", names), "context-ngram");
  EXPECT_EQ(NearestName("gram", names), "") << "two have it";
  EXPECT_EQ(NearestName("up", names), "") << "too short";
}

TEST(NearestNameTest, IsOfferedAfterWhatIsWrong) {
  EXPECT_EQ(DidYouMean("gready", {"greedy", "block"}), "; did you mean greedy?");
  EXPECT_EQ(DidYouMean("fast", {"greedy", "block"}), "");
}

}  // namespace
}  // namespace tandem::flags
