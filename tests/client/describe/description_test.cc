#include "client/describe/description.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/json.h"

namespace tandem::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::DescribeReply Reply() {
  v1::DescribeReply reply;
  reply.mutable_welcome()->set_tokenizer_id("tok");
  v1::Peer& target = *reply.add_peers();
  target.set_role(v1::Peer::ROLE_TARGET);
  target.set_address("10.0.0.3:50052");
  target.set_name("targets:50052");
  target.set_ready(true);
  target.set_sequences(3);
  target.mutable_welcome()->set_model_id("big");
  target.mutable_welcome()->add_switched_off("spans-graphs");
  target.mutable_welcome()->add_switched_off("spans");
  target.mutable_welcome()->add_rules(v1::RULE_GREEDY);
  target.mutable_welcome()->add_rules(v1::RULE_COUPLED);
  target.mutable_welcome()->mutable_default_sampling()->set_temperature(0.5);
  v1::Load& load = *target.mutable_load();
  load.set_free_slots(61);
  load.set_passes(4);
  load.set_pass_rows(10);
  load.set_busy_us(3);
  load.set_idle_us(1);
  for (const auto& [rows, us] : {std::pair(1, 7000), std::pair(16, 12000)}) {
    v1::CostPoint& point = *load.add_cost_curve();
    point.set_rows(static_cast<uint32_t>(rows));
    point.set_microseconds(static_cast<uint32_t>(us));
  }
  v1::SpeculationTotals& totals = *reply.mutable_speculation();
  totals.set_draft_tokens(500);
  totals.set_accepted_tokens(300);
  totals.set_rejected_rounds(100);
  totals.set_draft_us(1500);
  v1::Peer& draft = *reply.add_peers();
  draft.set_role(v1::Peer::ROLE_DRAFT);
  draft.set_address("draft:50051");
  draft.set_name("draft:50051");
  draft.set_problem("another tokenizer");
  return reply;
}

v1::ListModelsReply Models() {
  v1::ListModelsReply reply;
  v1::Model& model = *reply.add_models();
  model.set_id("demo");
  model.set_has_chat_template(true);
  return reply;
}

TEST(DescriptionTest, ALineForEachServiceAndThenItsFacts) {
  EXPECT_EQ(DescriptionTable("127.0.0.1:50050", Reply(), Models()),
            "service       address          state      sequences  free slots  queued rows  passes  "
            "rows per pass  busy\n"
            "orchestrator  127.0.0.1:50050  ready\n"
            "target        10.0.0.3:50052   ready      3          61          0            4       "
            "2.5            75 %\n"
            "draft         draft:50051      not ready  0\n"
            "\n"
            "orchestrator 127.0.0.1:50050\n"
            "  served model       demo\n"
            "  chat template      yes\n"
            "  tokenizer          tok\n"
            "  draft tokens       500, of them accepted 300\n"
            "  alpha              0.750\n"
            "  draft time         0.003 ms per draft token\n"
            "\n"
            "target 10.0.0.3:50052\n"
            "  name               targets:50052\n"
            "  model              big\n"
            "  switched off       spans-graphs, spans\n"
            "  rules              greedy, coupled\n"
            "  default sampling   temperature 0.5\n"
            "  pass times          rows         ms     ms/row\n"
            "                         1      7.000      7.000\n"
            "                        16     12.000      0.750\n"
            "\n"
            "draft draft:50051\n"
            "  problem            another tokenizer\n");
}

// The curve of the start, before the first report.
TEST(DescriptionTest, PassTimesAreThereBeforeTheFirstRequest) {
  v1::DescribeReply reply = Reply();
  v1::Peer& target = *reply.mutable_peers(0);
  *target.mutable_welcome()->mutable_cost_curve() = target.load().cost_curve();
  target.clear_load();
  EXPECT_THAT(DescriptionTable("x:1", reply, Models()), HasSubstr("16     12.000      0.750\n"));
}

TEST(DescriptionTest, WithoutATargetNothingIsServed) {
  v1::DescribeReply reply = Reply();
  reply.mutable_peers(0)->set_ready(false);
  reply.mutable_peers(0)->set_ejected(true);
  EXPECT_THAT(DescriptionTable("x:1", reply, Models()), HasSubstr("x:1             no target"));
  EXPECT_THAT(DescriptionTable("x:1", reply, Models()), HasSubstr("10.0.0.3:50052  ejected"));
}

TEST(DescriptionTest, JsonHasEveryField) {
  const std::string line = DescriptionJson("x:1", Reply(), Models());
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  const base::JsonValue json = tandem::testing::ParseJson(line);
  EXPECT_EQ(json["version"].Number(), 1);
  EXPECT_EQ(json["address"].String(), "x:1");
  const base::JsonValue target = json["description"]["peers"][0];
  EXPECT_EQ(target["role"].String(), "ROLE_TARGET");
  EXPECT_EQ(target["load"]["pass_rows"].String(), "10") << "64 bits";
  EXPECT_EQ(target["leaving"].Bool(), false) << "also what has its default";
  EXPECT_EQ(json["description"]["peers"][1]["problem"].String(), "another tokenizer");
  EXPECT_EQ(json["models"][0]["id"].String(), "demo");
}

}  // namespace
}  // namespace tandem::client
