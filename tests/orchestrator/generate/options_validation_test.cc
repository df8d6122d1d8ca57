// Every option of decoding: taken as it was sent, refused by name where model and services do not
// have it. Ranges, and what never goes together: tests/common/messages/request_options_test.cc; the
// rest of a request: request_validation_test.cc.
#include <google/protobuf/text_format.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/generate/request_validation.h"

namespace tandem::orchestrator::options_validation_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelFacts Model() {
  ModelFacts model;
  model.context_length = 1000;
  model.vocabulary_size = 100;
  model.eos_token_ids = {2, 3};
  model.encode = [](const std::string& text,
                    const TextOptions&) -> absl::StatusOr<std::vector<uint32_t>> {
    return std::vector<uint32_t>(text.size(), 7);
  };
  return model;
}

v1::GenerateRequest Good() {
  v1::GenerateRequest request;
  request.set_text("abc");
  request.set_max_tokens(50);
  return request;
}

// A good one with these fields besides.
v1::GenerateRequest With(const std::string& text) {
  v1::GenerateRequest request = Good();
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &request)) << text;
  return request;
}

void ExpectRefused(const v1::GenerateRequest& request, const std::vector<std::string>& parts) {
  auto valid = ValidateRequest(request, Model());
  ASSERT_FALSE(valid.ok()) << parts[0];
  EXPECT_EQ(valid.status().code(), absl::StatusCode::kInvalidArgument);
  for (const std::string& part : parts) {
    EXPECT_THAT(std::string(valid.status().message()), HasSubstr(part));
  }
}

TEST(OptionsValidation, SamplingIsTakenAsItWasSentAndWhatItRefusesNamed) {
  v1::GenerateRequest good = Good();
  v1::SamplingOptions& options = *good.mutable_sampling();
  options.set_temperature(0.5f);
  options.set_top_k(40);
  options.set_top_p(0.75f);
  options.set_min_p(0.125f);
  options.set_repetition_penalty(1.5f);
  options.set_presence_penalty(-0.25f);
  options.set_frequency_penalty(0.625f);
  options.add_banned_token_ids(99);
  for (uint32_t id : {5u, 6u, 7u}) options.add_allowed_token_ids(id);
  options.add_logit_bias()->set_token(5);
  options.mutable_logit_bias(0)->set_bias(-2.5f);
  options.set_min_tokens(50);
  auto valid = ValidateRequest(good, Model());
  ASSERT_TRUE(valid.ok()) << valid.status();
  const sampling::SamplingParameters expected = {.temperature = 0.5,
                                                 .top_k = 40,
                                                 .top_p = 0.75,
                                                 .min_p = 0.125,
                                                 .repetition_penalty = 1.5,
                                                 .presence_penalty = -0.25,
                                                 .frequency_penalty = 0.625,
                                                 .bias = {{5, -2.5}},
                                                 .banned = {99},
                                                 .allowed = {5, 6, 7},
                                                 .min_tokens = 50,
                                                 .stop_token_ids = {2, 3}};
  EXPECT_EQ(valid->sampling, expected);

  using Change = std::function<void(v1::SamplingOptions&)>;
  const std::vector<std::pair<Change, std::vector<std::string>>> bad = {
      {[](auto& o) { o.set_temperature(-0.01f); },
       {"sampling.temperature is -0.01; it must be 0 to 100"}},
      {[](auto& o) { o.add_banned_token_ids(100); },
       {"sampling.banned_token_ids[1] is 100", "below"}},
      {[](auto& o) {
         o.clear_allowed_token_ids();
         o.add_allowed_token_ids(2);
       },
       {"sampling.min_tokens is 50", "end the text"}},
      {[](auto& o) { o.set_min_tokens(51); }, {"sampling.min_tokens is 51", "0 to max_tokens, 50"}},
  };
  for (const auto& [change, parts] : bad) {
    v1::GenerateRequest request = good;
    change(*request.mutable_sampling());
    ExpectRefused(request, parts);
  }
}

TEST(OptionsValidation, WhatTheRequestDoesNotSayIsTheModelsDefault) {
  ModelFacts model = Model();
  model.default_sampling.temperature = 0.6;
  model.default_sampling.top_k = 20;
  model.default_sampling.top_p = 0.9;
  model.default_sampling.min_p = 0.05;
  model.default_sampling.repetition_penalty = 1.1;
  auto valid = ValidateRequest(Good(), model);
  ASSERT_TRUE(valid.ok()) << valid.status();
  sampling::SamplingParameters expected = model.default_sampling;
  expected.stop_token_ids = {2, 3};
  EXPECT_EQ(valid->sampling, expected);

  v1::GenerateRequest request = Good();
  request.mutable_sampling()->set_temperature(0);
  request.mutable_sampling()->set_top_k(0);
  valid = ValidateRequest(request, model);
  ASSERT_TRUE(valid.ok());
  EXPECT_EQ(valid->sampling.temperature, 0) << "0 was said";
  EXPECT_EQ(valid->sampling.top_k, 0u);
  EXPECT_EQ(valid->sampling.top_p, 0.9);
  EXPECT_EQ(valid->rule, acceptance::Rule::kGreedy);

  model.default_sampling.top_p = 2;
  EXPECT_EQ(ValidateRequest(Good(), model).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(OptionsValidation, WhatEndsTheTextIsWhatMinimumTokensBans) {
  v1::GenerateRequest request = Good();
  for (uint32_t id : {50u, 2u, 50u}) request.mutable_stop()->add_token_ids(id);
  EXPECT_THAT(ValidateRequest(request, Model())->sampling.stop_token_ids, ElementsAre(50, 2, 3));
  request.mutable_stop()->set_ignore_eos(true);
  EXPECT_THAT(ValidateRequest(request, Model())->sampling.stop_token_ids, ElementsAre(50, 2))
      << "2 was asked for by name";

  ModelFacts model = Model();
  model.vocabulary_size = 1000;
  model.eos_token_ids = {1005};  // padding
  EXPECT_TRUE(ValidateRequest(Good(), model)->sampling.stop_token_ids.empty());
  model.eos_token_ids.clear();
  for (uint32_t id = 100; id < 165; ++id) model.eos_token_ids.push_back(id);
  v1::GenerateRequest many = Good();
  for (uint32_t id = 0; id < 63; ++id) many.mutable_stop()->add_token_ids(id);
  EXPECT_TRUE(ValidateRequest(many, model).ok()) << "128";
  many.mutable_stop()->add_token_ids(63);
  auto valid = ValidateRequest(many, model);
  ASSERT_FALSE(valid.ok());
  EXPECT_THAT(std::string(valid.status().message()), HasSubstr("stop.token_ids"));
  EXPECT_THAT(std::string(valid.status().message()), HasSubstr("at most 128"));
}

// ---- rules and drafts ----

acceptance::Rule RuleOf(std::optional<float> temperature, v1::Rule rule, bool with_seed) {
  v1::GenerateRequest request = Good();
  if (temperature.has_value()) request.mutable_sampling()->set_temperature(*temperature);
  request.mutable_speculation()->set_rule(rule);
  if (with_seed) request.set_seed(0);
  if (rule == v1::RULE_LENIENT) request.mutable_speculation()->set_leniency(0.5f);
  auto valid = ValidateRequest(request, Model());
  EXPECT_TRUE(valid.ok()) << valid.status();
  return valid->rule;
}

// The length policy may choose trees where the request leaves it open, and rule, target and a
// drafter have them.
TEST(OptionsValidation, TreesAreThePolicysWhereTheyAreServed) {
  const auto nodes = [](
                         const std::function<void(v1::GenerateRequest&)>& change,
                         const std::function<void(ModelFacts&)>& other = [](ModelFacts&) {}) {
    ModelFacts model = Model();
    model.drafters = {"model", "chains"};
    model.tree_drafters = {"model", ""};
    model.max_nodes = 32;
    other(model);
    v1::GenerateRequest request = Good();
    request.set_seed(1);  // rule coupled
    change(request);
    auto valid = ValidateRequest(request, model);
    TANDEM_CHECK_OK(valid);
    EXPECT_TRUE(!valid->auto_nodes || valid->draft_nodes > 0);
    return valid->auto_nodes ? static_cast<int>(valid->draft_nodes)
                             : -static_cast<int>(valid->draft_nodes);
  };
  const auto as_it_is = [](v1::GenerateRequest&) {};
  EXPECT_EQ(nodes(as_it_is), 32);
  EXPECT_EQ(nodes(as_it_is, [](auto& m) { m.max_nodes = 64; }), 64);
  EXPECT_EQ(nodes([](auto& r) { r.mutable_sampling()->set_temperature(0); }), 32);
  EXPECT_EQ(nodes([](auto& r) { r.mutable_speculation()->set_auto_(true); }), 32);
  EXPECT_EQ(nodes([](auto& r) { r.mutable_speculation()->set_drafter("model"); }), 32);
  EXPECT_EQ(nodes([](auto& r) { r.mutable_speculation()->add_drafters("auto"); }), 32);
  EXPECT_EQ(nodes([](auto& r) { r.mutable_speculation()->set_draft_min_confidence(0); }), 32);
  EXPECT_EQ(nodes(as_it_is, [](auto& m) { m.drafters.clear(); }), 32) << "nobody says";
  // What the request says.
  EXPECT_EQ(nodes([](auto& r) { r.mutable_speculation()->set_draft_nodes(0); }), 0);
  EXPECT_EQ(nodes([](auto& r) { r.mutable_speculation()->set_draft_nodes(9); }), -9);
  EXPECT_EQ(nodes([](auto& r) { r.mutable_speculation()->set_fixed(4); }), 0);
  EXPECT_EQ(nodes([](auto& r) { r.mutable_speculation()->set_drafter("chains"); }), 0);
  EXPECT_EQ(nodes([](auto& r) { r.mutable_speculation()->set_draft_min_confidence(0.5); }), 0);
  EXPECT_EQ(nodes([](auto& r) {
              r.mutable_speculation()->set_length_policy(v1::LENGTH_POLICY_HEURISTIC);
            }),
            0);
  EXPECT_EQ(nodes([](auto& r) {
              r.mutable_sampling()->set_temperature(0);
              r.mutable_speculation()->set_draft_temperature(1);
            }),
            0);
  EXPECT_EQ(nodes([](auto& r) { r.clear_seed(); }), 0) << "rule speculative";
  // What is served.
  EXPECT_EQ(nodes(as_it_is, [](auto& m) { m.max_nodes = 7; }), 0) << "fewer than a tree";
  EXPECT_EQ(nodes(as_it_is, [](auto& m) { m.max_nodes = 0; }), 0);
  EXPECT_EQ(nodes(as_it_is, [](auto& m) { m.tree_drafters.clear(); }), 0);
  EXPECT_EQ(nodes(as_it_is, [](auto& m) { m.length_mode = LengthMode::kHeuristic; }), 0);
}

// The orchestrator's --prepare is of requests that leave it to the policy, where it is exact.
TEST(OptionsValidation, BlocksArePreparedByDefaultWhereTheOrchestratorSaysSo) {
  const auto prepared = [](const std::function<void(v1::GenerateRequest&)>& change,
                           LengthMode mode = LengthMode::kAuto) {
    ModelFacts model = Model();
    model.drafters = {"model"};
    model.tree_drafters = {"model", ""};
    model.max_nodes = 32;
    model.prepare = 16;
    model.length_mode = mode;
    v1::GenerateRequest request = Good();
    request.set_seed(1);  // rule coupled
    change(request);
    auto valid = ValidateRequest(request, model);
    TANDEM_CHECK_OK(valid);
    return valid->prepare;
  };
  const auto speculation = [&](const char* text) {
    return prepared([&](v1::GenerateRequest& request) {
      TANDEM_CHECK(
          google::protobuf::TextFormat::ParseFromString(text, request.mutable_speculation()));
    });
  };
  EXPECT_EQ(speculation(""), 16u);
  EXPECT_EQ(speculation("auto: true drafter: \"model\""), 16u);
  EXPECT_EQ(speculation("draft_nodes: 0 draft_min_confidence: 0"), 16u);
  EXPECT_EQ(prepared([](auto& r) { r.mutable_sampling()->set_temperature(0); }), 16u);
  // What the request says.
  EXPECT_EQ(speculation("prepare: 0"), 0u);
  EXPECT_EQ(speculation("prepare: 2"), 2u);
  EXPECT_EQ(speculation("fixed: 0"), 0u);
  EXPECT_EQ(speculation("fixed: 3"), 0u);
  EXPECT_EQ(speculation("length_policy: LENGTH_POLICY_HEURISTIC"), 0u);
  EXPECT_EQ(speculation("draft_nodes: 9"), 0u);
  EXPECT_EQ(speculation("draft_min_confidence: 0.5"), 0u);
  EXPECT_EQ(speculation("rule: RULE_SPECULATIVE"), 0u);
  EXPECT_EQ(prepared([](auto& r) { r.clear_seed(); }), 0u) << "rule speculative";
  EXPECT_EQ(prepared([](auto&) {}, LengthMode::kHeuristic), 0u);
}

TEST(OptionsValidation, TheRuleInForce) {
  using acceptance::Rule;
  EXPECT_EQ(RuleOf({}, v1::RULE_UNSPECIFIED, false), Rule::kSpeculative);
  EXPECT_EQ(RuleOf({}, v1::RULE_UNSPECIFIED, true), Rule::kCoupled) << "a seed of 0 is a seed";
  EXPECT_EQ(RuleOf({}, v1::RULE_SPECULATIVE, true), Rule::kSpeculative);
  EXPECT_EQ(RuleOf(0.7f, v1::RULE_BLOCK, false), Rule::kBlock);
  EXPECT_EQ(RuleOf(0.7f, v1::RULE_COUPLED, false), Rule::kCoupled);
  EXPECT_EQ(RuleOf(0.7f, v1::RULE_LENIENT, false), Rule::kLenient);
  for (bool seed : {false, true}) {
    for (v1::Rule rule : {v1::RULE_UNSPECIFIED, v1::RULE_GREEDY, v1::RULE_SPECULATIVE,
                          v1::RULE_BLOCK, v1::RULE_COUPLED}) {
      EXPECT_EQ(RuleOf(0.0f, rule, seed), Rule::kGreedy) << v1::Rule_Name(rule);
    }
    EXPECT_EQ(RuleOf(0.0f, v1::RULE_LENIENT, seed), Rule::kLenient);
  }
}

TEST(OptionsValidation, WhatIsSaidOfDrafts) {
  v1::GenerateRequest request = Good();
  EXPECT_EQ(ValidateRequest(request, Model())->proposal, Proposal::kDefault);
  EXPECT_FALSE(ValidateRequest(request, Model())->draft_temperature.has_value());
  request.mutable_speculation()->set_draft_temperature(0.5f);
  EXPECT_EQ(ValidateRequest(request, Model())->draft_temperature, 0.5);
  request.mutable_speculation()->set_proposal(v1::PROPOSAL_GREEDY);
  EXPECT_EQ(ValidateRequest(request, Model())->proposal, Proposal::kGreedy);
  request.mutable_speculation()->set_proposal(v1::PROPOSAL_SAMPLED);
  EXPECT_EQ(ValidateRequest(request, Model())->proposal, Proposal::kSampled);
}

// A drafter without a q to draw from cannot sample. The draft would refuse it, round after round.
TEST(OptionsValidation, SampledProposalsComeFromDraftersThatSample) {
  ModelFacts model = Model();
  const auto sampled = [&](const std::vector<std::string>& drafters) {
    v1::GenerateRequest request = Good();
    request.mutable_speculation()->set_proposal(v1::PROPOSAL_SAMPLED);
    for (const std::string& name : drafters) request.mutable_speculation()->add_drafters(name);
    return ValidateRequest(request, model);
  };
  EXPECT_TRUE(sampled({"prompt-lookup"}).ok()) << "nobody says";
  model.drafters = {"prompt-lookup", "model", "mixed", "recall"};
  model.sampling_drafters = {"model", "mixed"};
  EXPECT_EQ(sampled({"model"})->drafter, "model");
  EXPECT_THAT(sampled({"auto"})->drafters, ::testing::ElementsAre("model", "mixed"));
  EXPECT_THAT(std::string(sampled({}).status().message()),
              HasSubstr("speculation.proposal is PROPOSAL_SAMPLED, and the drafts' default drafter "
                        "has no q to draw from; those that sample are model, mixed"));
  EXPECT_THAT(std::string(sampled({"model", "recall"}).status().message()),
              HasSubstr("drafter \"recall\" has no q"));
  model.sampling_drafters = {"prompt-lookup", ""};
  EXPECT_TRUE(sampled({}).ok());
  model.sampling_drafters.clear();
  EXPECT_THAT(std::string(sampled({"model"}).status().message()),
              HasSubstr("no drafter there can"));
}

TEST(OptionsValidation, SamplesAndLogprobs) {
  v1::GenerateRequest request = Good();
  EXPECT_EQ(ValidateRequest(request, Model())->samples, 1u);
  EXPECT_FALSE(ValidateRequest(request, Model())->logprobs.has_value());
  request.set_samples(16);
  request.set_first_sample(65520);
  request.mutable_logprobs()->set_top(20);
  request.mutable_logprobs()->set_processed(true);
  request.mutable_logprobs()->set_prompt(true);
  auto valid = ValidateRequest(request, Model());
  ASSERT_TRUE(valid.ok()) << valid.status();
  EXPECT_EQ(valid->samples, 16u);
  EXPECT_EQ(valid->sample_index, 65520u);
  EXPECT_EQ(valid->logprobs, (sampling::LogprobOptions{20, true}));
  EXPECT_TRUE(valid->prompt_logprobs);
}

TEST(OptionsValidation, WhatIsNotServedIsRefused) {
  const std::string many =
      "drafters: ['1','2','3','4','5','6','7','8','9','10','11','12','13','14','15','16','17']";
  const std::pair<std::string, std::vector<std::string>> bad[] = {
      {"speculation { rule: RULE_GREEDY }",
       {"speculation.rule is RULE_GREEDY at temperature 1", "temperature 0"}},
      {"speculation { drafters: ['model', 'model'] }",
       {"speculation.drafters[1] is \"model\" again"}},
      {"speculation { drafters: ['model', 'auto'] }",
       {"speculation.drafters[1] is \"auto\"", "stands alone"}},
      {"speculation { drafters: '' }", {"speculation.drafters[0] is empty"}},
      {"speculation { " + many + " }", {"speculation.drafters has 17 names", "16"}},
      {"speculation { draft_min_confidence: 0.25 }",
       {"speculation.draft_min_confidence is 0.25", "rule speculative", "greedy or coupled"}},
      {"speculation { rule: RULE_SPECULATIVE prepare: 4 }",
       {"speculation.prepare is 4", "rule speculative", "greedy or coupled"}},
      {"seed: 1 speculation { rule: RULE_BLOCK draft_min_confidence: 0.25 }",
       {"speculation.draft_min_confidence is 0.25", "rule block", "greedy or coupled"}},
      {"sampling { temperature: 0 } "
       "speculation { rule: RULE_LENIENT leniency: 0.5 draft_min_confidence: 0.25 }",
       {"speculation.draft_min_confidence is 0.25", "rule lenient", "greedy or coupled"}},
      {"sampling { temperature: 0 } "
       "speculation { draft_temperature: 0.5 draft_min_confidence: 0.25 }",
       {"speculation.draft_min_confidence is 0.25", "speculation.draft_temperature is 0.5",
        "temperature 0"}},
      {"speculation { draft_nodes: 8 }",
       {"speculation.draft_nodes is 8", "rule speculative", "greedy or coupled"}},
      {"sampling { temperature: 0 } speculation { draft_temperature: 0.5 draft_nodes: 8 }",
       {"speculation.draft_nodes is 8", "speculation.draft_temperature is 0.5", "temperature 0"}},
      {"structured {}", {"constrained output (structured) is not served"}},
      {"structured { json_schema: '{}' }",
       {"constrained output (json_schema) is not served; leave structured out"}},
      {"structured { grammar: 'x' }", {"(grammar) is not served"}},
      {"structured { regex: 'x' }", {"(regex) is not served"}},
      {"structured { json_object: true }", {"(json_object) is not served"}}};
  for (const auto& [options, parts] : bad) ExpectRefused(With(options), parts);
}

}  // namespace
}  // namespace tandem::orchestrator::options_validation_test
