#include "common/messages/unknown_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "newer.pb.h"
#include "tandem/v1/target.pb.h"

namespace tandem::messages {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What an older service makes of a newer peer's message.
v1::Step AsOld(const v1::test_newer::Step& newer) {
  v1::Step step;
  EXPECT_TRUE(step.ParseFromString(newer.SerializeAsString()));
  return step;
}

TEST(UnknownFieldsTest, TakesWhatIsKnown) {
  v1::test_newer::Step newer;
  newer.set_sequence(5);
  newer.add_q()->add_ids(3);
  newer.mutable_options()->set_rule(v1::RULE_GREEDY);
  EXPECT_TRUE(RefuseUnknown(AsOld(newer)).ok());
  EXPECT_TRUE(RefuseUnknown(v1::Step()).ok());
}

TEST(UnknownFieldsTest, NamesTheNumberAtTheTop) {
  v1::test_newer::Step newer;
  newer.set_brand_new(1);
  const absl::Status status = RefuseUnknown(AsOld(newer));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("tandem.v1.Step"), HasSubstr("900")));
}

TEST(UnknownFieldsTest, NamesPathAndNumberInside) {
  v1::test_newer::Step newer;
  newer.add_q();
  newer.add_q()->set_brand_new(true);
  v1::TargetRequest request;
  *request.mutable_batch()->add_steps() = AsOld(newer);
  const absl::Status status = RefuseUnknown(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("batch.steps[0].q[1]"), HasSubstr("tandem.v1.SparseDistribution"),
                    HasSubstr("901")));
}

TEST(UnknownFieldsTest, NamesAnUnknownEnumValue) {
  v1::test_newer::Step newer;
  newer.mutable_options()->set_rule(77);
  const absl::Status status = RefuseUnknown(AsOld(newer));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("options"), HasSubstr("77"),
                                                   HasSubstr("field 6"), HasSubstr("Rule")));
}

TEST(UnknownFieldsTest, HereLooksAtTheMessageAlone) {
  v1::test_newer::Step newer;
  newer.add_q()->set_brand_new(true);
  EXPECT_TRUE(RefuseUnknownHere(AsOld(newer)).ok());
  newer.set_brand_new(1);
  EXPECT_FALSE(RefuseUnknownHere(AsOld(newer)).ok());
}

}  // namespace
}  // namespace tandem::messages
