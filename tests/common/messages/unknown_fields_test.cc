#include "common/messages/unknown_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "newer.pb.h"
#include "tandem/internal/v1/target.pb.h"

namespace tandem::messages::unknown_fields_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// What an older service makes of a newer peer's message.
internal::v1::Step AsOld(const internal::v1::test_newer::Step& newer) {
  internal::v1::Step step;
  EXPECT_TRUE(step.ParseFromString(newer.SerializeAsString()));
  return step;
}

TEST(UnknownFieldsTest, TakesWhatIsKnown) {
  internal::v1::test_newer::Step newer;
  newer.set_sequence(5);
  newer.add_q()->add_ids(3);
  newer.mutable_options()->set_rule(v1::RULE_GREEDY);
  EXPECT_TRUE(RefuseUnknown(AsOld(newer)).ok());
  EXPECT_TRUE(RefuseUnknown(internal::v1::Step()).ok());
}

TEST(UnknownFieldsTest, NamesTheNumberAtTheTop) {
  internal::v1::test_newer::Step newer;
  newer.set_brand_new(1);
  const absl::Status status = RefuseUnknown(AsOld(newer));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("tandem.internal.v1.Step"), HasSubstr("900")));
}

TEST(UnknownFieldsTest, NamesPathAndNumberInside) {
  internal::v1::test_newer::Step newer;
  newer.add_q();
  newer.add_q()->set_brand_new(true);
  internal::v1::TargetRequest request;
  *request.mutable_batch()->add_steps() = AsOld(newer);
  const absl::Status status = RefuseUnknown(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("batch.steps[0].q[1]"),
                    HasSubstr("tandem.internal.v1.SparseDistribution"), HasSubstr("901")));
}

TEST(UnknownFieldsTest, NamesAnUnknownEnumValue) {
  internal::v1::test_newer::Step newer;
  newer.mutable_options()->set_rule(77);
  const absl::Status status = RefuseUnknown(AsOld(newer));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("options"), HasSubstr("77"),
                                                   HasSubstr("field 6"), HasSubstr("Rule")));
}

TEST(UnknownFieldsTest, HereLooksAtTheMessageAlone) {
  internal::v1::test_newer::Step newer;
  newer.add_q()->set_brand_new(true);
  EXPECT_TRUE(RefuseUnknownHere(AsOld(newer)).ok());
  newer.set_brand_new(1);
  EXPECT_FALSE(RefuseUnknownHere(AsOld(newer)).ok());
}

TEST(UnknownFieldsTest, OfAClientWhatChangesNothingIsTold) {
  internal::v1::test_newer::Step newer;
  newer.set_harmless("x");
  newer.add_q()->set_harmless(true);
  newer.add_q()->set_harmless(true);
  std::vector<std::string> ignored;
  EXPECT_TRUE(RefuseUnknownOfClient(AsOld(newer), ignored).ok());
  EXPECT_THAT(ignored, ElementsAre("Step.1000", "SparseDistribution.1001"));
  EXPECT_FALSE(RefuseUnknown(AsOld(newer)).ok()) << "between services";
  EXPECT_FALSE(RefuseUnknownHere(AsOld(newer)).ok());
  newer.set_just_below(1);
  const absl::Status status = RefuseUnknownOfClient(AsOld(newer), ignored);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("999"));
}

TEST(UnknownFieldsTest, OfAClientAnUnknownEnumValueIsRefused) {
  internal::v1::test_newer::Step newer;
  newer.mutable_options()->set_rule(77);
  std::vector<std::string> ignored;
  EXPECT_FALSE(RefuseUnknownOfClient(AsOld(newer), ignored).ok());
}

TEST(UnknownFieldsTest, AFewIgnoredFieldsAreTold) {
  internal::v1::Step step;
  for (int number = 1000; number < 1100; ++number) {
    step.GetReflection()->MutableUnknownFields(&step)->AddVarint(number, 1);
  }
  std::vector<std::string> ignored;
  EXPECT_TRUE(RefuseUnknownOfClient(step, ignored).ok());
  EXPECT_EQ(ignored.size(), 8u);
}

}  // namespace
}  // namespace tandem::messages::unknown_fields_test
