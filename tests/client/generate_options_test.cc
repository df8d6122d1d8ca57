#include "client/generate_options.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  GenerateOptions options;
  absl::Status status;
};

Parsed Parse(std::vector<std::string> args) {
  Parsed parsed;
  FlagSet flags("tandem generate", "");
  parsed.options.AddTo(flags);
  parsed.status = flags.Parse(args);
  if (parsed.status.ok()) parsed.status = parsed.options.Validate();
  return parsed;
}

std::string Error(std::vector<std::string> args) {
  return std::string(Parse(std::move(args)).status.message());
}

TEST(GenerateOptionsTest, AllFlagsReachTheRequest) {
  Parsed parsed =
      Parse({"--prompt=Hello", "--max-tokens=20", "--draft-tokens=4", "--drafter=prompt-lookup",
             "--rule=speculative", "--seed=18446744073709551615", "--temperature=0.5", "--top-k=40",
             "--top-p=0.9", "--stop=a", "--stop=b", "--timeout=5s", "--priority=7"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  v1::GenerateRequest request = MakeRequest(parsed.options, *parsed.options.prompt);
  EXPECT_EQ(request.text(), "Hello");
  EXPECT_EQ(request.max_tokens(), 20u);
  EXPECT_EQ(request.speculation().fixed(), 4u);
  EXPECT_EQ(request.speculation().drafter(), "prompt-lookup");
  EXPECT_EQ(request.speculation().rule(), v1::RULE_SPECULATIVE);
  EXPECT_EQ(request.seed(), UINT64_MAX);
  EXPECT_FLOAT_EQ(request.sampling().temperature(), 0.5f);
  EXPECT_EQ(request.sampling().top_k(), 40u);
  EXPECT_FLOAT_EQ(request.sampling().top_p(), 0.9f);
  EXPECT_THAT(request.stop().strings(), ElementsAre("a", "b"));
  EXPECT_EQ(parsed.options.timeout, absl::Seconds(5));
  EXPECT_EQ(request.priority(), 7u);
}

TEST(GenerateOptionsTest, PriorityIsZeroToTen) {
  for (const char* bad : {"11", "-1", "high", ""}) {
    const std::string error = Error({"--prompt=Hello", absl::StrCat("--priority=", bad)});
    EXPECT_THAT(error, AllOf(HasSubstr("priority"), HasSubstr("0 to 10"))) << bad;
  }
  EXPECT_TRUE(Parse({"--prompt=Hello", "--priority=10"}).status.ok());
}

TEST(GenerateOptionsTest, AbsentFlagsAreAbsentInTheRequest) {
  Parsed parsed = Parse({"--prompt=Hello"});
  ASSERT_TRUE(parsed.status.ok());
  v1::GenerateRequest request = MakeRequest(parsed.options, "Hello");
  EXPECT_FALSE(request.has_seed());
  EXPECT_EQ(request.priority(), 0u);
  EXPECT_FALSE(request.sampling().has_temperature());
  EXPECT_FALSE(request.sampling().has_top_p());
  EXPECT_TRUE(request.speculation().auto_());
  EXPECT_EQ(request.speculation().rule(), v1::RULE_UNSPECIFIED);
}

TEST(GenerateOptionsTest, DraftTokensOff) {
  Parsed parsed = Parse({"--prompt=x", "--draft-tokens=0"});
  v1::GenerateRequest request = MakeRequest(parsed.options, "x");
  EXPECT_EQ(request.speculation().draft_tokens_case(), v1::SpeculationOptions::kFixed);
  EXPECT_EQ(request.speculation().fixed(), 0u);
}

TEST(GenerateOptionsTest, BadValuesAreNamed) {
  EXPECT_THAT(Error({"--prompt=x", "--temperature=-1"}), HasSubstr("--temperature=-1"));
  EXPECT_THAT(Error({"--prompt=x", "--temperature=-1"}), HasSubstr("0 to 100"));
  EXPECT_THAT(Error({"--prompt=x", "--draft-tokens=17"}), HasSubstr("--draft-tokens=17"));
  EXPECT_THAT(Error({"--prompt=x", "--draft-tokens=many"}), HasSubstr("auto"));
  EXPECT_THAT(Error({"--prompt=x", "--top-p=0"}), HasSubstr("above 0, to 1"));
  EXPECT_THAT(Error({"--prompt=x", "--rule=block"}), HasSubstr("greedy, speculative"));
  EXPECT_THAT(Error({"--prompt=x", "--rule=greedy"}), HasSubstr("--temperature=0"));
  EXPECT_THAT(Error({"--prompt=x", "--orchestrator=nowhere"}), HasSubstr("nowhere"));
  EXPECT_THAT(Error({"--prompt=x", "--stop="}), HasSubstr("--stop"));
  EXPECT_THAT(Error({"--prompt="}), HasSubstr("empty"));
  EXPECT_THAT(Error({"--prompt=a\xff"}), HasSubstr("byte 1"));
  EXPECT_THAT(Error({}), HasSubstr("--prompt"));
  EXPECT_THAT(Error({"--prompt=x", "--prompt-file=y"}), HasSubstr("only one"));
}

TEST(GenerateOptionsTest, Utf8) {
  for (const char* good : {"a", "ä", "€", "😀", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"}) {
    EXPECT_TRUE(CheckPrompt(good, "here").ok()) << good;
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80"}) {
    EXPECT_FALSE(CheckPrompt(bad, "here").ok()) << bad;
  }
}

}  // namespace
}  // namespace tandem::client
