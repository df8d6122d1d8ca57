#include "client/bench/report.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/bench/conversations.h"
#include "client/bench/options.h"
#include "common/base/json.h"
#include "common/theory/speedup.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/json.h"

namespace tandem::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::Last Plain(uint64_t us_per_token) {
  v1::Last last;
  last.mutable_usage()->set_completion_tokens(11);
  last.mutable_timing()->set_total_us(1000 + 10 * us_per_token);
  last.mutable_timing()->set_first_token_us(1000);
  last.mutable_timing()->set_verify_us(11 * us_per_token);
  last.mutable_speculation()->set_rounds(11);
  v1::CausedRounds& off = *last.mutable_speculation()->add_rounds_without_draft();
  off.set_cause("off");
  off.set_rounds(11);
  return last;
}

// 5 rounds, the first without a draft; 4 draft tokens each, which take 0.3 ms.
v1::Last Drafted(uint64_t us_per_token) {
  v1::Last last = Plain(us_per_token);
  v1::AcceptanceRecord& record = *last.mutable_speculation();
  record.set_rounds(5);
  record.mutable_rounds_without_draft(0)->set_cause("first-round");
  record.mutable_rounds_without_draft(0)->set_rounds(1);
  record.set_draft_tokens(16);
  record.set_accepted_tokens(6);
  record.set_rejected_rounds(2);
  last.mutable_timing()->set_draft_us(4 * 300);
  last.mutable_timing()->set_verify_us(5 * 1200);
  return last;
}

TEST(BenchReportTest, SpreadTakesTheMiddle) {
  EXPECT_DOUBLE_EQ(SpreadOf({3, 1, 2}).median, 2);
  EXPECT_DOUBLE_EQ(SpreadOf({4, 1, 2, 3}).median, 2.5);
  EXPECT_DOUBLE_EQ(SpreadOf({4, 1, 2, 3}).min, 1);
  EXPECT_DOUBLE_EQ(SpreadOf({4, 1, 2, 3}).max, 4);
  EXPECT_EQ(SpreadOf({}).max, 0);
}

TEST(BenchReportTest, MeasuredAndPredicted) {
  BenchReport report = MakeReport(
      {{Plain(1000), Drafted(500)}, {Plain(1000), Drafted(600)}, {Plain(1000), Drafted(1000)}});
  EXPECT_DOUBLE_EQ(report.ratio.min, 1);
  EXPECT_DOUBLE_EQ(report.ratio.max, 2);
  EXPECT_DOUBLE_EQ(report.reference_per_token.median, 1);
  EXPECT_DOUBLE_EQ(report.alpha_hat, 0.75);
  EXPECT_DOUBLE_EQ(report.candidates, 4);
  EXPECT_DOUBLE_EQ(report.draft_step, 0.3);
  EXPECT_DOUBLE_EQ(report.verify_step, 1.2) << "6 ms for 4 rounds, less the draft's 0.3";
  EXPECT_DOUBLE_EQ(report.plain_step, 1);
  EXPECT_DOUBLE_EQ(report.tokens_per_pass, 2.2);
  ASSERT_TRUE(report.predicted_ratio.has_value());
  EXPECT_NEAR(*report.predicted_ratio, theory::ExpectedTokens(0.75, 4) / 1.5, 1e-12);
}

// One request of each kind stood still, and prompts took long: neither is how fast a round is.
TEST(BenchReportTest, ThePredictionIsOfMedians) {
  std::vector<BenchPair> pairs(5, {Plain(1000), Drafted(600)});
  const double predicted = *MakeReport(pairs).predicted_ratio;
  EXPECT_NEAR(predicted, theory::ExpectedTokens(0.75, 4) / 1.5, 1e-12);
  const auto stand_still = [](v1::Timing& timing, uint64_t us) {
    timing.set_total_us(timing.total_us() + us);
    timing.set_verify_us(timing.verify_us() + us);
  };
  stand_still(*pairs[0].reference.mutable_timing(), 1'000'000);
  stand_still(*pairs[1].request.mutable_timing(), 1'000'000);
  v1::Timing& late_draft = *pairs[2].request.mutable_timing();
  late_draft.set_draft_us(late_draft.draft_us() + 1'000'000);
  late_draft.set_total_us(late_draft.total_us() + 1'000'000);
  for (BenchPair& pair : pairs) {
    for (v1::Last* last : {&pair.reference, &pair.request}) {
      stand_still(*last->mutable_timing(), 50'000);
      last->mutable_timing()->set_first_token_us(51'000);
    }
  }
  EXPECT_NEAR(*MakeReport(pairs).predicted_ratio, predicted, 1e-12);
}

TEST(BenchReportTest, ComparesWithAnotherNumberOfCandidates) {
  std::vector<BenchPair> pairs(8, {Plain(1000), Drafted(500)});
  pairs[3].request = Drafted(400);
  const BenchReport report = MakeReport(pairs, BenchMode{3});
  EXPECT_FALSE(report.predicted_ratio.has_value()) << "the prediction is of the target alone";
  ASSERT_TRUE(report.mean_ratio.has_value());
  EXPECT_NEAR(report.mean_ratio->mean, 2 * std::pow(1.25, 1.0 / 8), 1e-9);
  EXPECT_LT(report.mean_ratio->low, 2.0);
  EXPECT_THAT(ReportTable(report), HasSubstr("time per token, K=3"));
  EXPECT_EQ(tandem::testing::ParseJson(ReportJson(report))["against"].String(), "K=3");
}

TEST(BenchReportTest, TreesAreNotPredictedByTheFormulaOfChains) {
  v1::Last tree = Drafted(500);
  tree.mutable_speculation()->set_tree_rounds(1);
  const BenchReport report = MakeReport({{Plain(1000), Drafted(500)}, {Plain(1000), tree}});
  EXPECT_DOUBLE_EQ(report.ratio.median, 2);
  EXPECT_FALSE(report.predicted_ratio.has_value());
  EXPECT_THAT(ReportTable(report), HasSubstr("no prediction: some blocks were trees"));
  EXPECT_TRUE(tandem::testing::ParseJson(ReportJson(report))["predicted_ratio"].IsNull());
}

TEST(BenchReportTest, BothForms) {
  BenchReport report = MakeReport({{Plain(1000), Drafted(500)}});
  EXPECT_THAT(ReportTable(report), HasSubstr("tokens per target pass 2.20, alpha-hat 0.750"));
  const base::JsonValue json = tandem::testing::ParseJson(ReportJson(report));
  EXPECT_EQ(json["ratio"]["median"].Number(), 2);
  EXPECT_EQ(json["step_ms"]["draft"].Number(), 0.3);
}

TEST(BenchOptionsTest, PromptsOfBothForms) {
  auto prompts = ParsePrompts("one\r\n\n{\"prompt\": \"two\\nlines\", \"id\": 3}\n", "file");
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_THAT(*prompts, ElementsAre("one", "two\nlines"));
}

TEST(BenchOptionsTest, BadPromptsNameFileAndLine) {
  EXPECT_THAT(std::string(ParsePrompts("a\n{\"text\": 1}", "f").status().message()),
              HasSubstr("f:2"));
  EXPECT_THAT(std::string(ParsePrompts("a\nb\xff", "f").status().message()), HasSubstr("f:2"));
  EXPECT_THAT(std::string(ParsePrompts("\n", "f").status().message()), HasSubstr("no prompt"));
}

std::string ChatError(absl::string_view line) {
  const auto parsed = ParseConversations(absl::StrCat("\n", line, "\n"), "f");
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << line;
  return std::string(parsed.status().message());
}

TEST(BenchConversationsTest, OpenAisForm) {
  const auto parsed = ParseConversations(
      R"({"id": 7, "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})"
      "\r\n\n"
      R"({"messages": [{"role": "user", "content": "x", "refusal": null}, {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "c", "content": "1"}], "tools": [{"type": "function"}], "chat_template_kwargs": {"enable_thinking": false}})",
      "f");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), 2u);
  EXPECT_EQ((*parsed)[0].messages(0).content(), "Be brief.");
  EXPECT_THAT((*parsed)[0].messages(1).content_parts(), ElementsAre("a", "b"));
  const v1::Conversation& calls = (*parsed)[1];
  EXPECT_FALSE(calls.messages(1).has_content());
  EXPECT_EQ(calls.messages(1).tool_calls(0).name(), "f");
  EXPECT_EQ(calls.messages(1).tool_calls(0).arguments(), "{}");
  EXPECT_EQ(calls.messages(2).tool_call_id(), "c");
  EXPECT_THAT(calls.tools(), ElementsAre(R"({"type":"function"})"));
  EXPECT_EQ(calls.template_arguments(), R"({"enable_thinking":false})");
}

TEST(BenchConversationsTest, ErrorsNameFileLineAndField) {
  EXPECT_THAT(ChatError("{"), HasSubstr("f:2: the line is not JSON"));
  EXPECT_THAT(ChatError(R"([])"), HasSubstr("f:2: the line must be an object"));
  EXPECT_EQ(ChatError(R"({"prompt": "x"})"),
            "f:2: messages must be a list of at least one message");
  EXPECT_EQ(ChatError(R"({"messages": ["x"]})"), "f:2: messages[0] must be an object");
  EXPECT_EQ(ChatError(R"({"messages": [{"content": "x"}]})"), "f:2: messages[0].role is missing");
  EXPECT_EQ(ChatError(R"({"messages": [{"role": "user"}]})"),
            "f:2: messages[0].content is missing");
  EXPECT_EQ(ChatError(R"({"messages": [{"role": "user", "content": 3}]})"),
            "f:2: messages[0].content must be a string or a list of parts");
  EXPECT_THAT(ChatError(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})"),
              HasSubstr("f:2: messages[0].content[0].type must be \"text\""));
  EXPECT_THAT(ChatError(R"({"messages": [{"role": "user", "content": "x", "audio": {}}]})"),
              HasSubstr("f:2: messages[0].audio is not supported"));
  EXPECT_THAT(ChatError(R"({"messages": [{"role": "assistant", "tool_calls": [{}]}]})"),
              HasSubstr("f:2: messages[0].tool_calls[0].function must be an object"));
  EXPECT_THAT(
      ChatError(
          R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]})"),
      HasSubstr("f:2: messages[1].role is assistant in the last message"));
  EXPECT_THAT(ChatError(R"({"messages": [{"role": "user", "content": "x"}], "tools": {}})"),
              HasSubstr("f:2: tools must be a list"));
  EXPECT_THAT(std::string(ParseConversations("", "f").status().message()),
              HasSubstr("f: has no conversation"));
}

}  // namespace
}  // namespace tandem::client
