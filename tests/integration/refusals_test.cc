// What a request may not say, each refused by the services with INVALID_ARGUMENT that names the field,
// the value and what would be right; and the edges of each range, which are served.
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"

namespace tandem::testing {
namespace {

using ::testing::HasSubstr;

struct Case {
  const char* name;
  std::function<void(v1::GenerateRequest&)> change;
  std::vector<std::string> says;  // parts of the message; none: it is served
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

v1::SamplingOptions& Sampling(v1::GenerateRequest& request) { return *request.mutable_sampling(); }
v1::SpeculationOptions& Speculation(v1::GenerateRequest& request) {
  return *request.mutable_speculation();
}
void AddBias(v1::GenerateRequest& request, uint32_t token, float bias) {
  v1::LogitBias& entry = *Sampling(request).add_logit_bias();
  entry.set_token(token);
  entry.set_bias(bias);
}
void Lenient(v1::GenerateRequest& request, float leniency) {
  Speculation(request).set_rule(v1::RULE_LENIENT);
  Speculation(request).set_leniency(leniency);
}

const std::vector<Case>& Cases() {
  using R = v1::GenerateRequest;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  static const auto& cases = *new std::vector<Case>{
      {"JsonSchema",
       [](R& r) { r.mutable_structured()->set_json_schema("{}"); },
       {"json_schema", "not served", "leave structured out"}},
      {"Grammar", [](R& r) { r.mutable_structured()->set_grammar("x"); }, {"grammar"}},
      {"Regex", [](R& r) { r.mutable_structured()->set_regex("x"); }, {"regex"}},
      {"JsonObject",
       [](R& r) { r.mutable_structured()->set_json_object(true); },
       {"json_object", "not served"}},
      {"StructuredOfNoKind", [](R& r) { r.mutable_structured(); }, {"structured"}},
      {"CacheScope", [](R& r) { r.set_cache_scope("mine"); }, {"cache_scope", "not served"}},

      {"MinPAbove", [](R& r) { Sampling(r).set_min_p(1.5f); }, {"sampling.min_p", "1.5", "0 to 1"}},
      {"MinPNan", [](R& r) { Sampling(r).set_min_p(kNan); }, {"sampling.min_p", "nan"}},
      {"MinPMost", [](R& r) { Sampling(r).set_min_p(1); }, {}},
      {"RepetitionZero",
       [](R& r) { Sampling(r).set_repetition_penalty(0); },
       {"sampling.repetition_penalty", "above 0"}},
      {"RepetitionAbove",
       [](R& r) { Sampling(r).set_repetition_penalty(11); },
       {"sampling.repetition_penalty", "11", "10"}},
      {"RepetitionMost", [](R& r) { Sampling(r).set_repetition_penalty(10); }, {}},
      {"PresenceBelow",
       [](R& r) { Sampling(r).set_presence_penalty(-2.5f); },
       {"sampling.presence_penalty", "-2.5", "-2 to 2"}},
      {"PresenceLeast", [](R& r) { Sampling(r).set_presence_penalty(-2); }, {}},
      {"FrequencyAbove",
       [](R& r) { Sampling(r).set_frequency_penalty(2.5f); },
       {"sampling.frequency_penalty", "2.5", "-2 to 2"}},
      {"FrequencyNan",
       [](R& r) { Sampling(r).set_frequency_penalty(kNan); },
       {"sampling.frequency_penalty", "nan"}},
      {"FrequencyMost", [](R& r) { Sampling(r).set_frequency_penalty(2); }, {}},
      {"BiasAbove",
       [](R& r) { AddBias(r, 3, 101); },
       {"sampling.logit_bias[0].bias", "101", "-100 to 100"}},
      {"BiasTwice",
       [](R& r) {
         AddBias(r, 3, 1);
         AddBias(r, 3, 2);
       },
       {"sampling.logit_bias[1].token", "3", "already"}},
      {"BiasOfNoToken",
       [](R& r) { AddBias(r, 4096, 1); },
       {"sampling.logit_bias[0].token", "4096", "vocabulary"}},
      {"BiasMost", [](R& r) { AddBias(r, 4095, 100); }, {}},
      {"BannedNoToken",
       [](R& r) { Sampling(r).add_banned_tokens(4096); },
       {"sampling.banned_tokens[0]", "4096", "vocabulary"}},
      {"BannedAll",
       [](R& r) {
         for (uint32_t id = 0; id < 4096; ++id) Sampling(r).add_banned_tokens(id);
       },
       {"sampling.banned_tokens", "no token"}},
      {"BannedTooMany",
       [](R& r) {
         for (int i = 0; i < 16385; ++i) Sampling(r).add_banned_tokens(1);
       },
       {"sampling.banned_tokens", "16385", "16384"}},
      {"AllowedNoToken",
       [](R& r) { Sampling(r).add_allowed_tokens(5000); },
       {"sampling.allowed_tokens[0]", "5000"}},
      {"AllowedAndBanned",
       [](R& r) {
         Sampling(r).add_allowed_tokens(5);
         Sampling(r).add_banned_tokens(5);
       },
       {"no token"}},
      {"MinimumAboveTheMost",
       [](R& r) { Sampling(r).set_minimum_tokens(9); },
       {"sampling.minimum_tokens", "9", "max_tokens, 8"}},
      {"MinimumOfEndsOnly",
       [](R& r) {
         Sampling(r).set_minimum_tokens(2);
         Sampling(r).add_allowed_tokens(5);
         r.mutable_stop()->add_token_ids(5);
       },
       {"minimum_tokens", "end the text"}},
      {"MinimumMost", [](R& r) { Sampling(r).set_minimum_tokens(8); }, {}},

      {"LeniencyWithoutTheRule",
       [](R& r) { Speculation(r).set_leniency(0.5f); },
       {"speculation.leniency", "0.5", "RULE_LENIENT"}},
      {"LenientWithoutLeniency",
       [](R& r) { Speculation(r).set_rule(v1::RULE_LENIENT); },
       {"speculation.leniency", "missing"}},
      {"LeniencyZero", [](R& r) { Lenient(r, 0); }, {"speculation.leniency", "above 0"}},
      {"LeniencyAbove", [](R& r) { Lenient(r, 1.25f); }, {"speculation.leniency", "1.25"}},
      {"LeniencyNan", [](R& r) { Lenient(r, kNan); }, {"speculation.leniency", "nan"}},
      {"LeniencyMost", [](R& r) { Lenient(r, 1); }, {}},
      {"GreedyAboveTemperatureZero",
       [](R& r) { Speculation(r).set_rule(v1::RULE_GREEDY); },
       {"speculation.rule", "RULE_GREEDY", "temperature 0"}},
      {"RuleUnknown",
       [](R& r) { Speculation(r).set_rule(static_cast<v1::Rule>(9)); },
       {"speculation", "(rule)", "9"}},
      {"ProposalUnknown",
       [](R& r) { Speculation(r).set_proposal(static_cast<v1::Proposal>(7)); },
       {"speculation", "(proposal)", "7"}},
      {"DraftTemperatureBelow",
       [](R& r) { Speculation(r).set_draft_temperature(-0.5f); },
       {"speculation.draft_temperature", "-0.5", "100"}},
      {"DraftTemperatureZero", [](R& r) { Speculation(r).set_draft_temperature(0); }, {}},
      {"AutoFalse", [](R& r) { Speculation(r).set_auto_(false); }, {"speculation.auto", "fixed"}},

      {"SamplesAbove", [](R& r) { r.set_samples(17); }, {"samples", "17", "16"}},
      {"SampleIndexAbove",
       [](R& r) {
         r.set_samples(2);
         r.set_first_sample(65535);
       },
       {"first_sample", "65535", "65534"}},
      {"SampleIndexMost", [](R& r) { r.set_first_sample(65535); }, {}},
      {"SeveralSamplesResumed",
       [](R& r) {
         r.set_samples(2);
         r.add_output_prefix_ids(5);
       },
       {"output_prefix_ids", "samples"}},
      {"LogprobsAbove", [](R& r) { r.mutable_logprobs()->set_top(21); }, {"logprobs.top", "20"}},
      {"LogprobsMost", [](R& r) { r.mutable_logprobs()->set_top(20); }, {}},
  };
  return cases;
}

class RefusalTest : public ::testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() { cluster_ = new InProcessCluster(DemoOptions()); }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }

  static InProcessCluster* cluster_;
};

InProcessCluster* RefusalTest::cluster_ = nullptr;

TEST_P(RefusalTest, NamesWhatIsWrong) {
  v1::GenerateRequest request;
  request.set_text("Once upon a time");
  request.set_max_tokens(8);
  GetParam().change(request);
  const Reply reply = Send(cluster_->channel(), request);
  if (GetParam().says.empty()) {
    EXPECT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_FALSE(reply.ids.empty());
    return;
  }
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kInvalidArgument) << reply.status;
  for (const std::string& part : GetParam().says) {
    EXPECT_THAT(std::string(reply.status.message()), HasSubstr(part));
  }
  EXPECT_TRUE(reply.started.request_id().empty());  // before any work
}

INSTANTIATE_TEST_SUITE_P(Requests, RefusalTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::testing
