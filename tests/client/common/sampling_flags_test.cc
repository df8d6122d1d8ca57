#include "client/common/sampling_flags.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Parsed {
  SamplingFlags values;
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

TEST(SamplingFlagsTest, AllFlagsReachTheRequest) {
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
  const v1::SamplingOptions& sampling = parsed.request.sampling();
  EXPECT_FLOAT_EQ(sampling.temperature(), 0.5F);
  EXPECT_EQ(sampling.top_k(), 40u);
  EXPECT_FLOAT_EQ(sampling.top_p(), 0.9F);
  EXPECT_FLOAT_EQ(sampling.min_p(), 0.05F);
  EXPECT_FLOAT_EQ(sampling.repetition_penalty(), 1.1F);
  EXPECT_FLOAT_EQ(sampling.presence_penalty(), -0.5F);
  EXPECT_FLOAT_EQ(sampling.frequency_penalty(), 2);
  ASSERT_EQ(sampling.logit_bias_size(), 3);
  EXPECT_EQ(sampling.logit_bias(1).token(), 7u);
  EXPECT_EQ(sampling.logit_bias(1).bias(), -100);
  EXPECT_EQ(sampling.logit_bias(2).bias(), 0.25F);
  EXPECT_THAT(sampling.banned_token_ids(), ElementsAre(1, 2, 5));
  EXPECT_THAT(sampling.allowed_token_ids(), ElementsAre(8, 9));
  EXPECT_EQ(sampling.min_tokens(), 12u);
  EXPECT_EQ(parsed.request.seed(), UINT64_MAX);
  const v1::SpeculationOptions& speculation = parsed.request.speculation();
  EXPECT_EQ(speculation.rule(), v1::RULE_LENIENT);
  EXPECT_FLOAT_EQ(speculation.leniency(), 0.3F);
  EXPECT_EQ(speculation.drafter(), "prompt-lookup");
  EXPECT_EQ(speculation.proposal(), v1::PROPOSAL_GREEDY);
  EXPECT_FLOAT_EQ(speculation.draft_temperature(), 0.7F);
  EXPECT_EQ(speculation.fixed(), 4u);
}

TEST(SamplingFlagsTest, AbsentFlagsAreAbsentInTheRequest) {
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

TEST(SamplingFlagsTest, ADraftTemperatureNeedsADraft) {
  const absl::Status status = Parse({"--draft-temperature=0.7", "--draft-tokens=0"}).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--draft-temperature=0.7: needs a draft"));
  for (const char* tokens : {"--draft-tokens=auto", "--draft-tokens=1"}) {
    EXPECT_TRUE(Parse({"--draft-temperature=0.7", tokens}).status.ok()) << tokens;
  }
}

// What is "off" in words may be another default of the model's: it is sent.
TEST(SamplingFlagsTest, GivenDefaultsAreSent) {
  const Parsed parsed = Parse({"--min-p=0", "--repetition-penalty=1", "--temperature=1"});
  EXPECT_TRUE(parsed.request.sampling().has_min_p());
  EXPECT_TRUE(parsed.request.sampling().has_repetition_penalty());
  EXPECT_TRUE(parsed.request.sampling().has_temperature());
}

TEST(SamplingFlagsTest, EveryRuleHasItsName) {
  const std::pair<const char*, v1::Rule> rules[] = {{"speculative", v1::RULE_SPECULATIVE},
                                                    {"block", v1::RULE_BLOCK},
                                                    {"coupled", v1::RULE_COUPLED}};
  for (const auto& [name, rule] : rules) {
    const Parsed parsed = Parse({absl::StrCat("--rule=", name)});
    ASSERT_TRUE(parsed.status.ok()) << parsed.status;
    EXPECT_EQ(parsed.request.speculation().rule(), rule);
  }
  EXPECT_EQ(Parse({"--rule=greedy", "--temperature=0"}).request.speculation().rule(),
            v1::RULE_GREEDY);
  EXPECT_EQ(Parse({"--proposal=sampled"}).request.speculation().proposal(), v1::PROPOSAL_SAMPLED);
}

TEST(SamplingFlagsTest, DraftTokens) {
  EXPECT_TRUE(Parse({"--draft-tokens=auto"}).request.speculation().auto_());
  const Parsed off = Parse({"--draft-tokens=0"});
  EXPECT_EQ(off.request.speculation().draft_tokens_case(), v1::SpeculationOptions::kFixed);
  EXPECT_EQ(off.request.speculation().fixed(), 0u);
}

TEST(SamplingFlagsTest, LengthPolicy) {
  EXPECT_EQ(Parse({}).request.speculation().length_policy(), v1::LENGTH_POLICY_UNSPECIFIED);
  // One drafter goes on as it did; several, or all, are a list.
  EXPECT_EQ(Parse({"--drafter=model"}).request.speculation().drafters_size(), 0);
  EXPECT_EQ(Parse({"--drafter=auto"}).request.speculation().drafters(0), "auto");
  EXPECT_EQ(Parse({"--drafter=auto"}).request.speculation().drafter(), "");
  EXPECT_EQ(Parse({"--drafter=model,mixed"}).request.speculation().drafters_size(), 2);
  EXPECT_EQ(Parse({"--length-policy=auto"}).request.speculation().length_policy(),
            v1::LENGTH_POLICY_AUTO);
  EXPECT_EQ(Parse({"--length-policy=heuristic", "--draft-tokens=auto"})
                .request.speculation()
                .length_policy(),
            v1::LENGTH_POLICY_HEURISTIC);
  const absl::Status status = Parse({"--length-policy=auto", "--draft-tokens=4"}).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("--length-policy=auto: decides nothing with --draft-tokens=4"));
}

TEST(SamplingFlagsTest, DraftMinConfidence) {
  EXPECT_FALSE(Parse({}).request.speculation().has_draft_min_confidence()) << "the policy's";
  EXPECT_EQ(Parse({"--draft-min-confidence=0"}).request.speculation().draft_min_confidence(), 0);
  EXPECT_FLOAT_EQ(
      Parse({"--draft-min-confidence=0.3"}).request.speculation().draft_min_confidence(), 0.3f);
  for (const char* other : {"--draft-tokens=0", "--draft-nodes=4"}) {
    EXPECT_THAT(Error({"--draft-min-confidence=0.3", other}), HasSubstr("needs chains of a draft"));
  }
}

// That no bad value gets through is shown for each kind of flag: flags_test.cc. Here: which range
// each has.
TEST(SamplingFlagsTest, RangesAreNamedWithTheFlag) {
  const std::pair<const char*, const char*> bad[] = {{"--temperature=-1", "0 to 100"},
                                                     {"--top-p=0", "above 0, to 1"},
                                                     {"--min-p=1.1", "0 to 1"},
                                                     {"--repetition-penalty=0", "above 0, to 10"},
                                                     {"--presence-penalty=2.1", "-2 to 2"},
                                                     {"--frequency-penalty=-2.1", "-2 to 2"},
                                                     {"--draft-temperature=101", "0 to 100"},
                                                     {"--draft-min-confidence=2", "0 to 1"},
                                                     {"--min-tokens=-1", "0 to"},
                                                     {"--banned-tokens=1,x", "commas"},
                                                     {"--allowed-tokens=", "commas"},
                                                     {"--draft-tokens=17", "auto"},
                                                     {"--proposal=random", "sampled, greedy"},
                                                     {"--length-policy=best", "auto, heuristic"},
                                                     {"--rule=exact", "coupled, lenient"}};
  for (const auto& [flag, range] : bad) {
    EXPECT_THAT(Error({flag}), AllOf(HasSubstr(flag), HasSubstr(range))) << flag;
  }
}

TEST(SamplingFlagsTest, LogitBiasNamesTheBadPart) {
  for (const char* bad :
       {"3", "3:", ":1", "3:101", "3:-100.5", "3:nan", "x:1", "-1:1", "3:1:2", "", "1:1,,2:2"}) {
    EXPECT_THAT(Error({absl::StrCat("--logit-bias=", bad)}), HasSubstr("-100 to 100")) << bad;
  }
  EXPECT_THAT(Error({"--logit-bias=3:1", "--logit-bias=3:2"}),
              AllOf(HasSubstr("--logit-bias=3:2"), HasSubstr("has a bias already")));
}

TEST(SamplingFlagsTest, LogitBiasesAreBounded) {
  std::string biases = "--logit-bias=0:1";
  for (size_t i = 1; i < sampling::kMaxListedTokens; ++i) absl::StrAppend(&biases, ",", i, ":1");
  EXPECT_TRUE(Parse({biases}).status.ok());
  EXPECT_THAT(Error({biases, "--logit-bias=99999:1"}), HasSubstr("at most 16384"));
}

TEST(SamplingFlagsTest, RulesAndTheirTerms) {
  EXPECT_THAT(Error({"--rule=greedy"}), HasSubstr("--temperature=0"));
  EXPECT_THAT(Error({"--rule=lenient"}), HasSubstr("--leniency"));
  EXPECT_THAT(Error({"--leniency=0.5"}), HasSubstr("--rule=lenient"));
  EXPECT_THAT(Error({"--rule=block", "--leniency=0.5"}), HasSubstr("--rule=lenient"));
  EXPECT_THAT(Error({"--rule=lenient", "--leniency=0"}), HasSubstr("above 0, to 1"));
  EXPECT_TRUE(Parse({"--rule=lenient", "--leniency=1", "--temperature=0"}).status.ok());
}

TEST(SamplingFlagsTest, LongValuesAreCutInErrors) {
  const std::string error = Error({absl::StrCat("--banned-tokens=", std::string(5000, 'x'))});
  EXPECT_LT(error.size(), 200u);
}

}  // namespace
}  // namespace tandem::client
