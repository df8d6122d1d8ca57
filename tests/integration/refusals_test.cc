// A request that the orchestrator refuses: INVALID_ARGUMENT that names the field, the value and
// what would be right, before any work. And that the edges of the ranges are served by all three
// services. Each range by itself: tests/common/sampling/parameters_test.cc,
// tests/orchestrator/generate/*_validation_test.cc.
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"

namespace tandem::testing::refusals_test {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::function<void(v1::GenerateRequest&)> change;
  std::vector<std::string> says;  // parts of the message
};

std::vector<Case> Cases() {
  using R = v1::GenerateRequest;
  return {
      {[](R& r) { r.mutable_ids()->add_ids(4096); }, {"ids.ids[0]", "4096", "vocabulary"}},
      {[](R& r) { r.mutable_sampling()->set_min_p(1.5f); }, {"sampling.min_p is 1.5", "0 to 1"}},
      {[](R& r) { r.mutable_sampling()->add_banned_token_ids(4096); },
       {"sampling.banned_token_ids[0]", "4096", "vocabulary"}},
      {[](R& r) { r.mutable_speculation()->set_fixed(17); },
       {"speculation.fixed is 17", "0 to 16"}},
      {[](R& r) { r.mutable_structured()->set_json_schema("{}"); },
       {"json_schema", "not served", "leave structured out"}},
      // Of a newer proto.
      {[](R& r) { r.GetReflection()->MutableUnknownFields(&r)->AddVarint(77, 1); }, {"77"}},
      {[](R& r) {
         v1::SamplingOptions& sampling = *r.mutable_sampling();
         sampling.GetReflection()->MutableUnknownFields(&sampling)->AddVarint(78, 1);
       },
       {"78", "sampling"}},
      {[](R& r) { r.mutable_speculation()->set_rule(static_cast<v1::Rule>(99)); },
       {"speculation", "(rule)", "99"}},
      {[](R& r) { r.mutable_speculation()->set_proposal(static_cast<v1::Proposal>(7)); },
       {"speculation", "(proposal)", "7"}},
  };
}

v1::GenerateRequest Good() {
  v1::GenerateRequest request;
  request.set_text("Once upon a time");
  request.set_max_tokens(8);
  return request;
}

TEST(RefusalTest, NamesWhatIsWrong) {
  InProcessCluster cluster(DemoOptions());
  EXPECT_TRUE(Send(cluster.channel(), Good()).status.ok());
  for (const Case& test : Cases()) {
    SCOPED_TRACE(test.says[0]);
    v1::GenerateRequest request = Good();
    test.change(request);
    const Reply reply = Send(cluster.channel(), request);
    EXPECT_EQ(reply.status.code(), absl::StatusCode::kInvalidArgument) << reply.status;
    for (const std::string& part : test.says) {
      EXPECT_THAT(std::string(reply.status.message()), HasSubstr(part));
    }
    EXPECT_TRUE(reply.started.request_id().empty());  // before any work
    EXPECT_TRUE(reply.ids.empty());
  }
}

// The draft's Welcome says what it offers.
TEST(RefusalTest, ADrafterThatNoConnectedDraftOffersIsNamed) {
  InProcessCluster cluster(PatientDemoOptions());
  v1::GenerateRequest request = Good();
  request.mutable_speculation()->set_fixed(3);
  request.mutable_speculation()->set_drafter("oracle");
  // Until the draft has greeted, the orchestrator takes any name.
  Reply reply;
  const bool refused = WaitUntil([&] {
    reply = Send(cluster.channel(), request);
    return !reply.status.ok();
  });
  ASSERT_TRUE(refused);
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kInvalidArgument) << reply.status;
  EXPECT_THAT(std::string(reply.status.message()), HasSubstr("speculation.drafter is \"oracle\""));
  EXPECT_THAT(std::string(reply.status.message()),
              HasSubstr("model, cascade, lookup-first, prompt-lookup, random"));
  for (const char* offered : {"", "model", "prompt-lookup", "random"}) {
    request.mutable_speculation()->set_drafter(offered);
    EXPECT_TRUE(Send(cluster.channel(), request).status.ok()) << offered;
  }
}

// What one service lets through, the next one takes.
TEST(EdgesTest, OfAllRangesTogetherAreServed) {
  InProcessCluster cluster(DemoOptions());
  v1::GenerateRequest request = Good();
  v1::SamplingOptions& sampling = *request.mutable_sampling();
  sampling.set_min_p(1);
  sampling.set_repetition_penalty(10);
  sampling.set_presence_penalty(-2);
  sampling.set_frequency_penalty(2);
  v1::LogitBias& bias = *sampling.add_logit_bias();
  bias.set_token(4095);
  bias.set_bias(100);
  sampling.set_min_tokens(8);
  v1::SpeculationOptions& speculation = *request.mutable_speculation();
  speculation.set_rule(v1::RULE_LENIENT);
  speculation.set_leniency(1);
  speculation.set_draft_temperature(0);
  request.set_first_sample(65535);
  request.mutable_logprobs()->set_top(20);
  const Reply reply = Send(cluster.channel(), request);
  EXPECT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.samples.size(), 1u);
  EXPECT_EQ(reply.last.usage().completion_tokens(), 8u);
}

}  // namespace
}  // namespace tandem::testing::refusals_test
