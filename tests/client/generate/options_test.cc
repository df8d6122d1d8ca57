#include "client/generate/options.h"

#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"
#include "client/common/prompt.h"
#include "common/telemetry/span_context.h"
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
  flags::FlagSet flags("tandem generate", "");
  parsed.options.AddTo(flags);
  parsed.status = flags.Parse(args);
  if (parsed.status.ok()) parsed.status = parsed.options.Validate();
  return parsed;
}

std::string Error(std::vector<std::string> args) {
  return std::string(Parse(std::move(args)).status.message());
}

TEST(GenerateOptionsTest, AllFlagsReachTheRequest) {
  Parsed parsed = Parse({"--prompt=Hello", "--max-tokens=20", "--temperature=0.5", "--stop=a",
                         "--stop=b", "--stop-token=4,5", "--stop-token=6", "--ignore-eos",
                         "--timeout=5s", "--priority=7", "--samples=3", "--first-sample=2",
                         "--logprobs=5", "--processed-logprobs", "--prompt-logprobs"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  v1::GenerateRequest request = MakeRequest(parsed.options, *parsed.options.prompt.prompt);
  EXPECT_EQ(parsed.options.timeout, absl::Seconds(5));
  v1::GenerateRequest expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(text: "Hello" max_tokens: 20 priority: 7 samples: 3 first_sample: 2
         sampling { temperature: 0.5 }
         stop { strings: ["a", "b"] token_ids: [4, 5, 6] ignore_eos: true }
         logprobs { top: 5 processed: true prompt: true } token_bytes: true
         speculation { auto: true })",
      &expected));
  EXPECT_EQ(request.DebugString(), expected.DebugString());
}

TEST(GenerateOptionsTest, AChatIsAMessageForTheTemplate) {
  const Parsed parsed = Parse({"Hello", "--chat", "--system=Be brief.", "--max-tokens=9"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  v1::GenerateRequest expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(conversation { messages { role: "system" content: "Be brief." }
                        messages { role: "user" content: "Hello" } }
         max_tokens: 9 samples: 1 speculation { auto: true })",
      &expected));
  EXPECT_EQ(MakeRequest(parsed.options, "Hello").DebugString(), expected.DebugString());
  EXPECT_EQ(Error({"Hello", "--system=Be brief."}),
            "--system requires --chat: without it the text is continued as it is");
}

TEST(GenerateOptionsTest, ADefaultLengthIsLessWhereThereIsLessRoom) {
  const auto request = [](std::vector<std::string> args) {
    return MakeRequest(Parse(std::move(args)).options, "x");
  };
  EXPECT_EQ(request({"x"}).max_tokens(), 128u);
  EXPECT_TRUE(request({"x"}).fit_max_tokens());
  EXPECT_FALSE(request({"x", "--max-tokens=128"}).fit_max_tokens());
}

TEST(GenerateOptionsTest, ThePromptAsOthersWriteIt) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"Once upon", "-n", "8"}, {"-n", "8", "-p", "Once upon"}}) {
    const Parsed parsed = Parse(args);
    ASSERT_TRUE(parsed.status.ok()) << parsed.status;
    EXPECT_EQ(*parsed.options.prompt.Read(), "Once upon");
    EXPECT_EQ(parsed.options.max_tokens, 8u);
  }
  EXPECT_THAT(Error({"Once", "-p", "upon"}), HasSubstr("'Once' and --prompt: give only one"));
  EXPECT_THAT(Error({"Once", "upon"}), HasSubstr("'upon' is one text too many"));
  EXPECT_THAT(Error({}), HasSubstr("give the text to continue: \"TEXT\""));
  EXPECT_THAT(Error({"\xff"}), HasSubstr("the argument: the prompt is not UTF-8"));
}

TEST(GenerateOptionsTest, ResumingSendsWhatIsThere) {
  Parsed parsed = Parse({"--prompt=x", "--output-prefix-ids=7,8", "--seed=3", "--first-sample=4"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  v1::GenerateRequest request = MakeRequest(parsed.options, "x");
  EXPECT_THAT(request.output_prefix_ids(), ElementsAre(7, 8));
  EXPECT_EQ(request.first_sample(), 4u);
  EXPECT_THAT(Error({"--prompt=x", "--output-prefix-ids=7", "--samples=2"}),
              AllOf(HasSubstr("--output-prefix-ids has 1 ids with --samples 2"),
                    HasSubstr("its own --first-sample")));
  EXPECT_THAT(Error({"--prompt=x", "--output-prefix-ids=7,8", "--max-tokens=2"}),
              AllOf(HasSubstr("--max-tokens=2"), HasSubstr("above that, or 0")));
  EXPECT_TRUE(Parse({"--prompt=x", "--output-prefix-ids=7,8", "--max-tokens=0"}).status.ok());
}

TEST(GenerateOptionsTest, LogprobsOfTheTokenAlone) {
  v1::GenerateRequest request = MakeRequest(Parse({"--prompt=x", "--logprobs=0"}).options, "x");
  EXPECT_TRUE(request.has_logprobs());
  EXPECT_EQ(request.logprobs().top(), 0u);
  EXPECT_FALSE(request.logprobs().prompt());
  EXPECT_FALSE(MakeRequest(Parse({"x"}).options, "x").token_bytes());
  EXPECT_THAT(Error({"--prompt=x", "--logprobs=21"}), HasSubstr("0 to 20"));
  EXPECT_THAT(Error({"--prompt=x", "--prompt-logprobs"}),
              AllOf(HasSubstr("--prompt-logprobs requires --logprobs=N"), HasSubstr("to 20")));
  EXPECT_THAT(Error({"--prompt=x", "--processed-logprobs"}), HasSubstr("requires --logprobs=N"));
}

TEST(GenerateOptionsTest, SamplesAndTheirIndices) {
  EXPECT_THAT(Error({"--prompt=x", "--samples=17"}), HasSubstr("1 to 16"));
  EXPECT_THAT(Error({"--prompt=x", "--first-sample=65536"}), HasSubstr("0 to 65535"));
  EXPECT_THAT(Error({"--prompt=x", "--first-sample=65535", "--samples=2"}),
              HasSubstr("--first-sample is 65535; with --samples 2 it must be 0 to 65534"));
  EXPECT_TRUE(Parse({"--prompt=x", "--first-sample=65534", "--samples=2"}).status.ok());
}

TEST(GenerateOptionsTest, ACacheScopeHas64BytesAtMost) {
  EXPECT_EQ(Error({"--prompt=Hello", "--cache-scope=" + std::string(65, 'x')}),
            "--cache-scope has 65 bytes; at most 64");
  const Parsed parsed = Parse({"--prompt=Hello", "--cache-scope=" + std::string(64, 'x')});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(MakeRequest(parsed.options, "x").cache_scope(), std::string(64, 'x'));
}

TEST(GenerateOptionsTest, AbsentFlagsAreAbsentInTheRequest) {
  Parsed parsed = Parse({"--prompt=Hello"});
  ASSERT_TRUE(parsed.status.ok());
  v1::GenerateRequest request = MakeRequest(parsed.options, "Hello");
  EXPECT_FALSE(request.has_seed());
  EXPECT_EQ(request.priority(), 0u);
  EXPECT_FALSE(request.sampling().has_temperature());
  EXPECT_FALSE(request.has_logprobs());
  EXPECT_FALSE(request.stop().ignore_eos());
  EXPECT_EQ(request.samples(), 1u);
  EXPECT_FALSE(request.round_records());
  EXPECT_EQ(MakeTraceparent(parsed.options, [] { return 1; }), "");
}

TEST(GenerateOptionsTest, ATimelineAsksForTheRounds) {
  for (const char* flag : {"--timeline", "--timeline=short", "--timeline=all"}) {
    const Parsed parsed = Parse({"--prompt=x", flag});
    ASSERT_TRUE(parsed.status.ok()) << parsed.status;
    EXPECT_TRUE(MakeRequest(parsed.options, "x").round_records());
  }
  EXPECT_THAT(Error({"--prompt=x", "--timeline=true"}), HasSubstr("one of short, all"));
  EXPECT_THAT(Error({"--prompt=x", "--color=yes"}), HasSubstr("one of auto, always, never"));
}

constexpr char kTraceparent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";

TEST(GenerateOptionsTest, AGivenTraceparentIsSentAsItIs) {
  const Parsed parsed = Parse({"--prompt=x", absl::StrCat("--traceparent=", kTraceparent)});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(MakeTraceparent(parsed.options, [] { return 1; }), kTraceparent);
}

TEST(GenerateOptionsTest, AMalformedTraceparentIsRefused) {
  const std::string upper = "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01";
  const std::string no_id = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
  for (const std::string& text : {upper, no_id, std::string("4bf92f3577b34da6a3ce929d0e0e4736")}) {
    EXPECT_THAT(Error({"--prompt=x", "--traceparent=" + text}),
                AllOf(HasSubstr("--traceparent=" + text), HasSubstr("00-TRACE_ID-SPAN_ID-FLAGS")));
  }
  EXPECT_THAT(Error({"--prompt=x", "--trace", absl::StrCat("--traceparent=", kTraceparent)}),
              HasSubstr("give only one of them"));
}

TEST(GenerateOptionsTest, TraceMakesASampledContextOfItsOwn) {
  const Parsed parsed = Parse({"--prompt=x", "--trace"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  // Zeros make no id: another one is drawn.
  uint64_t next = 0;
  EXPECT_EQ(MakeTraceparent(parsed.options, [&next] { return next++; }),
            "00-00000000000000010000000000000002-0000000000000003-01");
  const auto context = telemetry::ParseTraceparent(
      MakeTraceparent(parsed.options, [] { return 0xfedcba9876543210; }));
  ASSERT_TRUE(context.has_value());
  EXPECT_TRUE(context->sampled());
}

TEST(GenerateOptionsTest, BadValuesAreNamed) {
  EXPECT_THAT(Error({"--prompt=x", "--orchestrator=nowhere"}), HasSubstr("nowhere"));
  EXPECT_THAT(Error({"--prompt=x", "--stop="}), HasSubstr("--stop"));
  EXPECT_THAT(Error({"--prompt=x", "--stop-token=a"}), HasSubstr("--stop-token=a"));
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
