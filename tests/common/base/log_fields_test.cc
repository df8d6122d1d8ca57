#include "common/base/log_fields.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "gtest/gtest.h"

namespace tandem::base {
namespace {

std::string Value(absl::string_view value) { return LogFields("e").Add("k", value).text(); }
std::string Ms(absl::Duration value) { return LogFields("e").AddMs("k", value).text(); }

TEST(LogFieldsTest, NameThenPairsInTheirOrder) {
  EXPECT_EQ(LogFields("ready").text(), "ready");
  EXPECT_EQ(LogFields("request").Add("b", "x").Add("a_1", std::string("y/z:1")).text(),
            "request b=x a_1=y/z:1");
}

TEST(LogFieldsTest, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(Value("10.0.0.1:50,[::1]:51"), "e k=10.0.0.1:50,[::1]:51");
  EXPECT_EQ(Value(""), "e k=\"\"");
  EXPECT_EQ(Value("two words"), "e k=\"two words\"");
  EXPECT_EQ(Value("a=b"), "e k=\"a=b\"");
  EXPECT_EQ(Value("it's"), "e k=it's");
  EXPECT_EQ(Value("Z\xc3\xbcrich"), "e k=Z\xc3\xbcrich");
}

TEST(LogFieldsTest, EscapesAsJsonDoes) {
  EXPECT_EQ(Value("say \"hi\""), "e k=\"say \\\"hi\\\"\"");
  EXPECT_EQ(Value("C:\\dir"), "e k=\"C:\\\\dir\"");
  EXPECT_EQ(Value("a\nb\r\tc"), "e k=\"a\\nb\\r\\tc\"");
  EXPECT_EQ(Value(absl::string_view("\0\x1f\x7f", 3)), "e k=\"\\u0000\\u001f\\u007f\"");
}

// Who writes a value cannot add a field or a line of his own.
TEST(LogFieldsTest, AValueStaysOneValue) {
  const std::string text = Value("x\" status=OK\nrequest id=1");
  EXPECT_EQ(text, "e k=\"x\\\" status=OK\\nrequest id=1\"");
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(LogFieldsTest, Numbers) {
  EXPECT_EQ(LogFields("e")
                .Add("least", std::numeric_limits<int64_t>::min())
                .Add("most", std::numeric_limits<uint64_t>::max())
                .Add("byte", uint8_t{65})
                .Add("yes", true)
                .Add("no", false)
                .text(),
            "e least=-9223372036854775808 most=18446744073709551615 byte=65 yes=true no=false");
  EXPECT_EQ(LogFields("e").Add("a", 0.75).Add("b", 0.0).Add("c", 1.0 / 3).text(),
            "e a=0.75 b=0 c=0.333333");
  EXPECT_EQ(LogFields("e").Add("a", std::numeric_limits<double>::infinity()).text(), "e a=inf");
}

TEST(LogFieldsTest, Durations) {
  EXPECT_EQ(LogFields("e").Add("a", absl::Milliseconds(200)).Add("b", absl::ZeroDuration()).text(),
            "e a=200ms b=0");
  EXPECT_EQ(LogFields("e").Add("a", absl::InfiniteDuration()).text(), "e a=inf");
  EXPECT_EQ(Ms(absl::Microseconds(12'500)), "e k=12.5");
  EXPECT_EQ(Ms(absl::Milliseconds(100)), "e k=100");
  EXPECT_EQ(Ms(absl::Microseconds(7)), "e k=0.007");
  EXPECT_EQ(Ms(absl::Nanoseconds(999)), "e k=0");
  EXPECT_EQ(Ms(absl::ZeroDuration()), "e k=0");
  EXPECT_EQ(Ms(absl::Microseconds(-1'250)), "e k=-1.25");
  EXPECT_EQ(Ms(absl::Hours(24)), "e k=86400000");
  EXPECT_EQ(Ms(absl::InfiniteDuration()), "e k=inf");
}

// A text that looks like a number stays a text, so that a field has one type.
TEST(LogFieldsTest, AreMembersOfJsonWithTheirTypes) {
  EXPECT_EQ(LogFields("e")
                .Add("id", "17")
                .Add("ok", true)
                .Add("rows", 17)
                .Add("rate", 1.5)
                .Add("nan", std::numeric_limits<double>::quiet_NaN())
                .Add("grace", absl::Seconds(10))
                .AddMs("total_ms", absl::Microseconds(12'500))
                .AddMs("none_ms", absl::InfiniteDuration())
                .Add("quoted", "a \"b\"\n")
                .json(),
            R"("event": "e", "id": "17", "ok": true, "rows": 17, "rate": 1.5, "nan": "nan", )"
            R"("grace": "10s", "total_ms": 12.5, "none_ms": "inf", "quoted": "a \"b\"\n")");
}

TEST(LogFieldsTest, GoesIntoTheLog) {
  std::vector<std::string> lines;
  ScopedLogSink sink([&](const LogEntry& entry) { lines.emplace_back(entry.message); });
  TANDEM_LOG(kInfo) << LogFields("stopped").Add("after", absl::Seconds(2));
  EXPECT_EQ(lines, std::vector<std::string>{"stopped after=2s"});
}

TEST(LogFieldsDeathTest, NamesAreNames) {
  EXPECT_DEATH(LogFields("two words"), "");
  EXPECT_DEATH(LogFields(""), "");
  EXPECT_DEATH(LogFields("e").Add("Key", 1), "");
  EXPECT_DEATH(LogFields("e").Add("k=", "v"), "");
  EXPECT_DEATH(LogFields("e").Add("time", "a line has one"), "");
}

}  // namespace
}  // namespace tandem::base
