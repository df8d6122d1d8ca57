#include "client/common/request_flags.h"

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Parsed {
  RequestFlags values;
  absl::Status status;
  v1::GenerateRequest request;
};

Parsed Parse(std::vector<std::string> args) {
  Parsed parsed;
  flags::FlagSet flags("tandem x", "");
  parsed.values.AddTo(flags);
  parsed.status = flags.Parse(args);
  if (parsed.status.ok()) parsed.status = parsed.values.Validate();
  if (parsed.status.ok()) parsed.values.Apply(parsed.request);
  return parsed;
}

std::string Error(std::vector<std::string> args) {
  const absl::Status status = Parse(std::move(args)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(RequestFlagsTest, AllFlagsReachTheRequest) {
  const Parsed parsed = Parse({"--temperature=0.5",
                               "--top-k=40",
                               "--top-p=0.9",
                               "--min-p=0.05",
                               "--repetition-penalty=1.1",
                               "--presence-penalty=-0.5",
                               "--frequency-penalty=2",
                               "--logit-bias=3:1.5,7:-100",
                               "--logit-bias=9:0.25",
                               "--banned-tokens=1,2",
                               "--banned-tokens=5",
                               "--allowed-tokens=8,9",
                               "--min-tokens=12",
                               "--seed=18446744073709551615",
                               "--rule=lenient",
                               "--leniency=0.3",
                               "--drafter=prompt-lookup",
                               "--proposal=greedy",
                               "--draft-temperature=0.7",
                               "--draft-tokens=4"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  v1::GenerateRequest expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(sampling {
           temperature: 0.5 top_k: 40 top_p: 0.9 min_p: 0.05 repetition_penalty: 1.1
           presence_penalty: -0.5 frequency_penalty: 2
           logit_bias { token: 3 bias: 1.5 } logit_bias { token: 7 bias: -100 }
           logit_bias { token: 9 bias: 0.25 }
           banned_token_ids: [1, 2, 5] allowed_token_ids: [8, 9] min_tokens: 12
         }
         seed: 18446744073709551615
         speculation {
           rule: RULE_LENIENT leniency: 0.3 drafter: "prompt-lookup" proposal: PROPOSAL_GREEDY
           draft_temperature: 0.7 fixed: 4
         })",
      &expected));
  EXPECT_EQ(parsed.request.DebugString(), expected.DebugString());
}

// As `tandem generate` has them: those of the table that are not a flag of its own.
TEST(RequestFlagsTest, EveryOptionOfTheTableIsAFlag) {
  for (const messages::RequestOption& option : messages::RequestOptions()) {
    if (option.help.empty()) continue;
    const messages::OptionType type = option.type();
    const std::string value = type == messages::OptionType::kSwitch   ? "true"
                              : type == messages::OptionType::kChoice ? option.choices()[0]
                              : option.flag == "logit-bias"           ? "1:1"
                                                                      : "1";
    RequestFlags values;
    flags::FlagSet flags("tandem x", "");
    values.AddTo(flags);
    if (!option.under("sampling") && !option.under("speculation") && option.path != "seed") {
      values.Add(option, flags);
    }
    const absl::Status status = flags.Parse({absl::StrCat("--", option.flag, "=", value)});
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_GT(values.request.ByteSizeLong(), 0u) << option.flag;
  }
}

TEST(RequestFlagsTest, AbsentFlagsAreAbsentInTheRequest) {
  const Parsed parsed = Parse({});
  ASSERT_TRUE(parsed.status.ok());
  EXPECT_EQ(parsed.request.sampling().ByteSizeLong(), 0u);
  EXPECT_FALSE(parsed.request.has_seed());
  const v1::SpeculationOptions& speculation = parsed.request.speculation();
  EXPECT_TRUE(speculation.auto_());
  EXPECT_EQ(speculation.rule(), v1::RULE_UNSPECIFIED);
  EXPECT_EQ(speculation.proposal(), v1::PROPOSAL_UNSPECIFIED);
  EXPECT_FALSE(speculation.has_leniency());
  EXPECT_FALSE(speculation.has_draft_temperature());
}

// What is "off" in words may be another default of the model's: it is sent.
TEST(RequestFlagsTest, GivenDefaultsAreSent) {
  const Parsed parsed = Parse({"--min-p=0", "--repetition-penalty=1", "--temperature=1"});
  EXPECT_TRUE(parsed.request.sampling().has_min_p());
  EXPECT_TRUE(parsed.request.sampling().has_repetition_penalty());
  EXPECT_TRUE(parsed.request.sampling().has_temperature());
}

TEST(RequestFlagsTest, DraftTokens) {
  EXPECT_TRUE(Parse({"--draft-tokens=auto"}).request.speculation().auto_());
  const Parsed off = Parse({"--draft-tokens=0"});
  EXPECT_EQ(off.request.speculation().draft_tokens_case(), v1::SpeculationOptions::kFixed);
  EXPECT_EQ(off.request.speculation().fixed(), 0u);
}

// One drafter goes on as it did; several, or all, are a list.
TEST(RequestFlagsTest, Drafters) {
  EXPECT_EQ(Parse({"--drafter=model"}).request.speculation().drafters_size(), 0);
  EXPECT_EQ(Parse({"--drafter=auto"}).request.speculation().drafters(0), "auto");
  EXPECT_EQ(Parse({"--drafter=auto"}).request.speculation().drafter(), "");
  EXPECT_EQ(Parse({"--drafter=model,mixed"}).request.speculation().drafters_size(), 2);
}

// Each range: tests/common/messages/request_options_test.cc; that no bad value gets through is
// shown for each kind of flag: flag_set_test.cc. Here: that the flags have the table's.
TEST(RequestFlagsTest, RangesAreNamedWithTheFlag) {
  const std::pair<const char*, const char*> bad[] = {
      {"--top-p=0", "above 0, to 1"},       {"--draft-nodes=65", "0 to 64"},
      {"--banned-tokens=1,x", "commas"},    {"--draft-tokens=17", "auto"},
      {"--rule=exact", "coupled, lenient"}, {"--draft-tokens=atuo", "did you mean auto?"}};
  for (const auto& [flag, range] : bad) {
    EXPECT_THAT(Error({flag}), AllOf(HasSubstr(flag), HasSubstr(range))) << flag;
  }
}

TEST(RequestFlagsTest, WhatDoesNotGoTogetherIsToldByTheFlagsNames) {
  EXPECT_EQ(Error({"--length-policy=auto", "--draft-tokens=4"}),
            "--length-policy is auto, but --draft-tokens is 4: leave one of them out");
  EXPECT_THAT(Error({"--draft-min-confidence=0.25", "--draft-nodes=4"}),
              HasSubstr("--draft-min-confidence is 0.25, and --draft-nodes is 4"));
  EXPECT_EQ(Error({"--rule=lenient"}), "--leniency is missing: lenient needs it, above 0, to 1");
}

TEST(RequestFlagsTest, LogitBiasNamesTheBadPart) {
  for (const char* bad :
       {"3", "3:", ":1", "3:101", "3:-100.5", "3:nan", "x:1", "-1:1", "3:1:2", "", "1:1,,2:2"}) {
    EXPECT_THAT(Error({absl::StrCat("--logit-bias=", bad)}), HasSubstr("-100 to 100")) << bad;
  }
  EXPECT_THAT(Error({"--logit-bias=3:1", "--logit-bias=3:2"}),
              AllOf(HasSubstr("--logit-bias=3:2"), HasSubstr("has a bias already")));
}

TEST(RequestFlagsTest, LogitBiasesAreBounded) {
  std::string biases = "--logit-bias=0:1";
  for (size_t i = 1; i < sampling::kMaxListedTokens; ++i) absl::StrAppend(&biases, ",", i, ":1");
  EXPECT_TRUE(Parse({biases}).status.ok());
  EXPECT_THAT(Error({biases, "--logit-bias=99999:1"}), HasSubstr("at most 16384"));
}

TEST(RequestFlagsTest, LongValuesAreCutInErrors) {
  const std::string error = Error({absl::StrCat("--banned-tokens=", std::string(5000, 'x'))});
  EXPECT_LT(error.size(), 200u);
}

}  // namespace
}  // namespace tandem::client
