// The lists of peers that an orchestrator is given.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/options.h"

namespace tandem::orchestrator {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Problem(std::vector<std::string> targets, std::vector<std::string> drafts) {
  Options options;
  options.target_addresses = std::move(targets);
  options.draft_addresses = std::move(drafts);
  options.tokenizer_directory = "somewhere";
  const absl::Status status = options.Validate();
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(AddressLists, OneOrManyTargetsAnyNumberOfDrafts) {
  EXPECT_EQ(Problem({"a:1"}, {}), "");
  EXPECT_EQ(Problem({"a:1", "b:1", "a:2"}, {"a:1", "[::1]:7"}), "")
      << "a draft may share its address with a target's";
}

TEST(AddressLists, EveryBadOneIsNamed) {
  EXPECT_THAT(Problem({}, {}), HasSubstr("target"));
  EXPECT_THAT(Problem({"a:1", "b"}, {}), AllOf(HasSubstr("target"), HasSubstr("'b'")));
  EXPECT_THAT(Problem({"a:1", ""}, {}), AllOf(HasSubstr("target"), HasSubstr("is empty")));
  EXPECT_THAT(Problem({"a:0"}, {"c:x"}), AllOf(HasSubstr("target"), HasSubstr("'a:0'"),
                                               HasSubstr("draft"), HasSubstr("'c:x'")));
}

TEST(AddressLists, OneThatIsThereTwiceIsNamed) {
  EXPECT_THAT(Problem({"a:1", "b:1", "a:1"}, {}),
              AllOf(HasSubstr("target"), HasSubstr("'a:1' is in the list twice")));
  EXPECT_THAT(Problem({"a:1"}, {"d:1", "d:1"}),
              AllOf(HasSubstr("draft"), HasSubstr("'d:1' is in the list twice")));
}

TEST(AddressLists, HowOftenTheyAreLookedUpAndHowLongADraftMayBeSilentIsChecked) {
  Options options;
  options.target_addresses = {"a:1"};
  options.tokenizer_directory = "somewhere";
  EXPECT_TRUE(options.Validate().ok());
  options.resolve_every = absl::Milliseconds(99);
  options.loop.draft_silence = absl::ZeroDuration();
  EXPECT_THAT(std::string(options.Validate().message()),
              AllOf(HasSubstr("resolve_every is 99ms; it must be 100ms to 1h"),
                    HasSubstr("draft_silence is 0; it must be 1ms to 1h")));
}

}  // namespace
}  // namespace tandem::orchestrator
