#include "common/security/certificate_expiry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/log_lines.h"

namespace tandem::security {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class CertificateExpiryTest : public ::testing::Test {
 protected:
  size_t Said(absl::string_view event) const { return log_.Of(event).size(); }

  const tandem::testing::LogRecorder log_;
  CertificateExpiry expiry_;
};

TEST_F(CertificateExpiryTest, NothingIsSaidWhileThereIsTime) {
  expiry_.Set("a.pem", kNow + absl::Hours(8 * 24));
  expiry_.Look(kNow);
  EXPECT_TRUE(log_.Lines().empty());
  EXPECT_EQ(expiry_.Expired(kNow), "");
}

TEST_F(CertificateExpiryTest, SevenDaysBeforeItIsSaidOnceADay) {
  expiry_.Set("a.pem", kNow + absl::Hours(3 * 24 + 1));
  expiry_.Look(kNow);
  expiry_.Look(kNow + absl::Hours(23));
  ASSERT_EQ(Said("certificate_expires"), 1u);
  const auto line = log_.Of("certificate_expires")[0];
  EXPECT_EQ(line.fields.at("file"), "a.pem");
  EXPECT_EQ(line.fields.at("days_left"), "3");
  EXPECT_THAT(line.fields.at("valid_until"), HasSubstr("2027-01-18"));
  expiry_.Look(kNow + absl::Hours(24));
  EXPECT_EQ(Said("certificate_expires"), 2u);
  EXPECT_EQ(Said("certificate_expired"), 0u);
}

TEST_F(CertificateExpiryTest, TheMomentIsSaidAtOnceAndThenOnceADay) {
  const absl::Time until = kNow + absl::Minutes(1);
  expiry_.Set("a.pem", until);
  expiry_.Look(kNow);
  EXPECT_EQ(expiry_.Expired(until), "");
  const absl::Time late = until + absl::Seconds(1);
  expiry_.Look(late);
  expiry_.Look(late + absl::Hours(1));
  EXPECT_EQ(Said("certificate_expired"), 1u);
  expiry_.Look(late + absl::Hours(25));
  EXPECT_EQ(Said("certificate_expired"), 2u);
  EXPECT_EQ(Said("certificate_expires"), 1u);
  EXPECT_THAT(expiry_.Expired(late), HasSubstr("a.pem expired at 2027-01-15"));
}

TEST_F(CertificateExpiryTest, AReplacedOneIsGoodAgain) {
  expiry_.Set("a.pem", kNow - absl::Seconds(1));
  expiry_.Set("b.pem", kNow - absl::Seconds(1));
  expiry_.Look(kNow);
  EXPECT_EQ(Said("certificate_expired"), 2u);
  expiry_.Set("a.pem", kNow + absl::Hours(24 * 90));
  expiry_.Look(kNow + absl::Hours(25));
  EXPECT_EQ(Said("certificate_expired"), 3u);  // the other one
  EXPECT_THAT(expiry_.Expired(kNow), Not(HasSubstr("a.pem")));
  EXPECT_THAT(expiry_.Expired(kNow), HasSubstr("b.pem"));
}

TEST_F(CertificateExpiryTest, MetricsHaveOneSeriesAFile) {
  EXPECT_EQ(expiry_.MetricsText(), "");
  expiry_.Set("a \"b\"\\", kNow);
  expiry_.Set("c.pem", kNow + absl::Seconds(5));
  const std::string text = expiry_.MetricsText();
  EXPECT_THAT(text, HasSubstr("# TYPE tandem:tls_certificate_expiry_timestamp_seconds gauge\n"));
  EXPECT_THAT(text,
              HasSubstr(" gauge\n"
                        "tandem:tls_certificate_expiry_timestamp_seconds{file=\"a \\\"b\\\"\\\\\"} "
                        "1800000000\n"
                        "tandem:tls_certificate_expiry_timestamp_seconds{file=\"c.pem\"} "
                        "1800000005\n"));
}

}  // namespace
}  // namespace tandem::security
