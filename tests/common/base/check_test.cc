#include "common/base/check.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/status_macros.h"
#include "gtest/gtest.h"

namespace tandem::base {
namespace {

TEST(CheckTest, TrueConditionEvaluatesOnceAndNoMessage) {
  int conditions = 0, messages = 0;
  auto count = [](int& counter) {
    ++counter;
    return true;
  };
  TANDEM_CHECK(count(conditions)) << count(messages);
  TANDEM_CHECK_OK(absl::OkStatus());
  TANDEM_CHECK_OK(absl::StatusOr<int>(1)) << "unused";
  EXPECT_EQ(conditions, 1);
  EXPECT_EQ(messages, 0);
}

TEST(CheckTest, IsOneStatementInAnIf) {
  bool reached_else = false;
  if (false)
    TANDEM_CHECK(false) << "never";
  else
    reached_else = true;
  EXPECT_TRUE(reached_else);
}

TEST(CheckDeathTest, FailureSaysWhereWhatAndWhy) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  int held = 3;
  EXPECT_DEATH(TANDEM_CHECK(held < 2) << "holds " << held,
               "check_test.cc:[0-9]+: CHECK failed: held < 2 holds 3");
  EXPECT_DEATH(TANDEM_CHECK_OK(absl::DataLossError("torn")) << "file", "DATA_LOSS: torn file");
  EXPECT_DEATH(TANDEM_CHECK_OK(absl::StatusOr<int>(absl::DataLossError("torn"))), "torn");
}

absl::StatusOr<int> Half(int x) {
  if (x % 2 != 0) return absl::InvalidArgumentError("odd");
  return x / 2;
}

absl::StatusOr<int> Quarter(int x) {
  TANDEM_ASSIGN_OR_RETURN(int half, Half(x));
  TANDEM_ASSIGN_OR_RETURN(half, Half(half));
  return half;
}

absl::Status IsEven(int x) {
  TANDEM_RETURN_IF_ERROR(Half(x).status());
  return absl::OkStatus();
}

TEST(StatusMacrosTest, ReturnTheError) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status(), absl::InvalidArgumentError("odd"));
  EXPECT_TRUE(IsEven(2).ok());
  EXPECT_EQ(IsEven(3), absl::InvalidArgumentError("odd"));
}

}  // namespace
}  // namespace tandem::base
