// W3C Trace Context, version 00.
#include "common/telemetry/span_context.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem::telemetry {
namespace {

constexpr char kGood[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(Traceparent, TheStandardsExampleIsRead) {
  const auto context = ParseTraceparent(kGood);
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(TraceIdHex(*context), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(SpanIdHex(*context), "00f067aa0ba902b7");
  EXPECT_EQ(context->flags, 1);
  EXPECT_TRUE(context->sampled());
}

TEST(Traceparent, Flags) {
  const std::string head = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-";
  EXPECT_FALSE(ParseTraceparent(head + "00")->sampled());
  EXPECT_TRUE(ParseTraceparent(head + "03")->sampled());
  EXPECT_FALSE(ParseTraceparent(head + "02")->sampled());
  EXPECT_EQ(ParseTraceparent(head + "ff")->flags, 0xff);
}

TEST(Traceparent, LaterVersionsAreReadAsFarAsThisOneGoes) {
  const std::string rest = "-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  EXPECT_TRUE(ParseTraceparent("01" + rest).has_value());
  EXPECT_TRUE(ParseTraceparent("cc" + rest + "-what-the-future-holds").has_value());
  EXPECT_TRUE(ParseTraceparent("cc" + rest + "-").has_value());
  EXPECT_FALSE(ParseTraceparent("cc" + rest + ".what").has_value());
}

TEST(Traceparent, MalformedOnesAreNone) {
  for (const char* header : {
           "",
           "-",
           "00",
           "4bf92f3577b34da6a3ce929d0e0e4736",
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",    // version 255
           "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",    // no digit
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",    // no trace
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",    // no span
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",    // upper case
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-01",    // upper case
           "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",     // short
           "00-4bf92f3577b34da6a3ce929d0e0e47366-00f067aa0ba902b7-01",   // long
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",     // short flags
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",    // no digit
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",   // longer than version 00
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",  // longer than version 00
           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",    // no hyphen
           "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
           " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
       }) {
    EXPECT_FALSE(ParseTraceparent(header).has_value()) << header;
  }
}

TEST(SpanContextBytes, ThereAndBack) {
  const SpanContext context = *ParseTraceparent(kGood);
  const std::string bytes = ToBytes(context);
  EXPECT_EQ(bytes.size(), kSpanContextBytes);
  EXPECT_EQ(FromBytes(bytes), context);
  EXPECT_EQ(bytes.back(), 1);
  EXPECT_EQ(static_cast<uint8_t>(bytes[0]), 0x4b);
  EXPECT_EQ(static_cast<uint8_t>(bytes[16]), 0x00);
  EXPECT_EQ(static_cast<uint8_t>(bytes[17]), 0xf0);
}

TEST(SpanContextBytes, OtherLengthsAndZeroIdsAreNone) {
  const std::string bytes = ToBytes(*ParseTraceparent(kGood));
  EXPECT_FALSE(FromBytes("").has_value());
  EXPECT_FALSE(FromBytes(bytes.substr(1)).has_value());
  EXPECT_FALSE(FromBytes(bytes + '\0').has_value());
  EXPECT_FALSE(FromBytes(std::string(16, '\0') + bytes.substr(16)).has_value());
  EXPECT_FALSE(
      FromBytes(bytes.substr(0, 16) + std::string(8, '\0') + bytes.substr(24)).has_value());
}

TEST(SpanContext, NoneIsNeitherValidNorSampled) {
  SpanContext none;
  none.flags = SpanContext::kSampled;
  EXPECT_FALSE(none.valid());
  EXPECT_FALSE(none.sampled());
}

}  // namespace
}  // namespace tandem::telemetry
