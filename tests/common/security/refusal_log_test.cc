#include "common/security/refusal_log.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/support/log_lines.h"

namespace tandem::security::refusal_log_test {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class RefusalLogTest : public ::testing::Test {
 protected:
  void Refuse(const std::string& reason, absl::Duration after) {
    refusals_->Refused("Generate", reason, "ipv4:10.0.0.1:5", kNow + after);
  }
  std::vector<tandem::testing::LogLine> Lines() const { return log_.Of("unauthenticated"); }

  const tandem::testing::LogRecorder log_;
  std::optional<RefusalLog> refusals_{std::in_place};
};

TEST_F(RefusalLogTest, TheFirstOfACauseIsSaidAtOnce) {
  Refuse("no token", absl::ZeroDuration());
  Refuse("not known", absl::ZeroDuration());
  ASSERT_EQ(Lines().size(), 2u);
  EXPECT_EQ(Lines()[0].fields.at("method"), "Generate");
  EXPECT_EQ(Lines()[0].fields.at("peer"), "ipv4:10.0.0.1:5");
  EXPECT_EQ(Lines()[0].fields.at("reason"), "no token");
  EXPECT_EQ(Lines()[0].fields.count("others"), 0u);
  EXPECT_EQ(Lines()[1].fields.at("reason"), "not known");
}

TEST_F(RefusalLogTest, OthersAreCountedAndSaidWithTheNextAfterAMinute) {
  for (int i = 0; i < 1000; ++i) Refuse("no token", absl::Milliseconds(i));
  EXPECT_EQ(Lines().size(), 1u);
  Refuse("no token", absl::Seconds(60));
  ASSERT_EQ(Lines().size(), 2u);
  EXPECT_EQ(Lines()[1].fields.at("others"), "999");
  Refuse("no token", absl::Seconds(120));
  ASSERT_EQ(Lines().size(), 3u);
  EXPECT_EQ(Lines()[2].fields.count("others"), 0u);
}

TEST_F(RefusalLogTest, ACountIsSaidWithAnybodysCall) {
  Refuse("no token", absl::ZeroDuration());
  Refuse("no token", absl::Seconds(1));
  refusals_->Look(kNow + absl::Seconds(59));
  EXPECT_EQ(Lines().size(), 1u);
  refusals_->Look(kNow + absl::Seconds(61));
  ASSERT_EQ(Lines().size(), 2u);
  EXPECT_EQ(Lines()[1].fields.at("others"), "1");
  refusals_->Look(kNow + absl::Hours(1));
  EXPECT_EQ(Lines().size(), 2u);  // nothing is left
}

TEST_F(RefusalLogTest, ACountIsSaidAtTheEnd) {
  Refuse("no token", absl::ZeroDuration());
  Refuse("no token", absl::Seconds(1));
  refusals_.reset();
  ASSERT_EQ(Lines().size(), 2u);
  EXPECT_EQ(Lines()[1].fields.at("others"), "1");
}

}  // namespace
}  // namespace tandem::security::refusal_log_test
