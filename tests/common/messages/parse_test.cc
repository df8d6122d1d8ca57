// Bytes that are not a message, and messages that would take too much memory.
#include "common/messages/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "common/messages/limits.h"
#include "tandem/internal/v1/draft.pb.h"
#include "tandem/internal/v1/target.pb.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::messages {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A field with a length; the number is below 16.
std::string Field(int number, const std::string& content) {
  std::string bytes{static_cast<char>(number << 3 | 2)};
  size_t size = content.size();
  while (size >= 0x80) {
    bytes += static_cast<char>((size & 0x7f) | 0x80);
    size >>= 7;
  }
  return bytes + static_cast<char>(size) + content;
}

std::string Repeat(const std::string& what, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += what;
  return all;
}

template <typename Message>
absl::Status ParseAs(const std::string& bytes) {
  Message message;
  return Parse(bytes, message);
}

TEST(Parse, GivesWhatProtobufGives) {
  v1::GenerateRequest request;
  request.set_text("a text of some length");
  for (uint32_t token = 0; token < 16384; ++token) {  // the most that is served
    v1::LogitBias& bias = *request.mutable_sampling()->add_logit_bias();
    bias.set_token(token);
    bias.set_bias(1.5);
  }
  request.mutable_stop()->add_strings("end");
  v1::GenerateRequest parsed;
  ASSERT_TRUE(Parse(request.SerializeAsString(), parsed).ok());
  EXPECT_EQ(parsed.SerializeAsString(), request.SerializeAsString());
}

TEST(Parse, TheLongestPromptFits) {
  v1::GenerateRequest request;
  for (int i = 0; i < kMaxMessageBytes - 16; ++i) request.mutable_ids()->add_ids(1);
  EXPECT_TRUE(ParseAs<v1::GenerateRequest>(request.SerializeAsString()).ok());
}

TEST(Parse, EntriesWithoutNumberAreRefusedBeforeTheyAreMade) {
  const std::string entries = Field(5, "");  // logit_bias {}
  // 350,000 of them in 700 KB.
  v1::SamplingOptions sampling;
  ASSERT_TRUE(sampling.ParseFromString(entries));
  ASSERT_EQ(sampling.logit_bias_size(), 1);
  const absl::Status status = ParseAs<v1::SamplingOptions>(Repeat(entries, 350'000));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("700000 bytes"), HasSubstr("tandem.v1.SamplingOptions.logit_bias")));
}

TEST(Parse, TheEstimateIsNeverBelowWhatIsTaken) {
  const std::string messages[] = {
      Repeat(Field(5, ""), 50'000),                    // logit_bias
      Repeat("\x08\x01", 50'000),                      // a number where a float belongs
      Repeat(std::string("\xa0\x06\x01", 3), 50'000),  // unknown numbers
      Repeat(Field(6, std::string(100, '\1')), 500),   // banned_token_ids
  };
  for (const std::string& bytes : messages) {
    v1::SamplingOptions sampling;
    ASSERT_TRUE(sampling.ParseFromString(bytes));
    const auto parsed = ParsedBytes(bytes, sampling);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_GE(*parsed, sampling.SpaceUsedLong()) << bytes.size();
  }
  internal::v1::Batch batch;
  const std::string steps = Repeat(Field(1, ""), 10'000);
  ASSERT_TRUE(batch.ParseFromString(steps));
  EXPECT_GE(*ParsedBytes(steps, batch), batch.SpaceUsedLong());
}

TEST(Parse, SaysWhereBytesStopMakingSense) {
  const absl::Status cut = ParseAs<v1::GenerateRequest>("\x0a\x7fxyz");
  EXPECT_EQ(cut.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cut.message()),
              AllOf(HasSubstr("at byte 0 of 5"), HasSubstr("tandem.v1.GenerateRequest"),
                    HasSubstr("field 1"), HasSubstr("127 bytes, and 3 are left")));
  EXPECT_THAT(std::string(ParseAs<internal::v1::DraftRequest>(std::string(1, '\0')).message()),
              HasSubstr("there is no field"));
  EXPECT_THAT(std::string(ParseAs<internal::v1::DraftRequest>("\x0f").message()),
              HasSubstr("a kind"));
  EXPECT_THAT(std::string(ParseAs<internal::v1::Advance>("\x10\xff").message()),
              AllOf(HasSubstr("round"), HasSubstr("does not end")));
  EXPECT_THAT(std::string(ParseAs<internal::v1::Open>(Field(3, "\xff\xfe")).message()),
              HasSubstr("UTF-8"));
}

// Whatever the bytes are, there is an answer, and the same one as Protobuf's.
TEST(Parse, AgreesWithProtobufOnMutatedBytes) {
  internal::v1::DraftRequest request;
  request.mutable_open()->set_sequence(7);
  request.mutable_open()->mutable_options()->mutable_sampling()->set_temperature(0.5);
  request.mutable_open()->mutable_options()->set_rule(v1::RULE_GREEDY);
  for (uint32_t i = 0; i < 1000; ++i) request.mutable_open()->mutable_prefix()->add_tokens(i);
  const std::string good = request.SerializeAsString();
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = good.substr(0, random() % 4 == 0 ? random() % good.size() : good.size());
    for (int j = 0; j < 3 && !bytes.empty(); ++j) {
      bytes[random() % std::min<size_t>(bytes.size(), 60)] = static_cast<char>(random());
    }
    internal::v1::DraftRequest by_protobuf;
    internal::v1::DraftRequest by_us;
    const bool parses = by_protobuf.ParseFromString(bytes);
    const absl::Status status = Parse(bytes, by_us);
    EXPECT_EQ(status.ok(), parses) << status;
    EXPECT_EQ(status.message().empty(), parses);
  }
}

}  // namespace
}  // namespace tandem::messages
