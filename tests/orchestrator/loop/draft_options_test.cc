// What a request may ask of its draft, in every combination: a request that is valid is one that no
// draft refuses. FakeDraft fails the test where the draft service would refuse.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "orchestrator/generate/request_validation.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator::draft_options_test {
namespace {

ModelFacts Model() {
  ModelFacts model;
  model.context_length = 4096;
  model.vocabulary_size = 8;
  model.encode = [](const std::string&,
                    const TextOptions&) -> absl::StatusOr<std::vector<uint32_t>> {
    return std::vector<uint32_t>{1, 2, 3, 4, 5};
  };
  model.drafters = model.tree_drafters = model.sampling_drafters = {"model"};
  model.tree_drafters.emplace_back();
  model.max_nodes = 16;
  return model;
}

void ForEachRequest(const std::function<void(const v1::GenerateRequest&)>& call) {
  for (const v1::Rule rule : {v1::RULE_UNSPECIFIED, v1::RULE_GREEDY, v1::RULE_SPECULATIVE,
                              v1::RULE_BLOCK, v1::RULE_COUPLED, v1::RULE_LENIENT}) {
    for (const float temperature : {0.0f, 0.8f}) {
      for (const auto draft_temperature : {std::optional<float>(), {0.0f}, {0.7f}}) {
        for (const auto confidence : {std::optional<float>(), {0.0f}, {0.5f}}) {
          for (const auto nodes : {std::optional<uint32_t>(), {0}, {8}}) {
            for (const std::string length : {"auto", "heuristic", "fixed"}) {
              v1::GenerateRequest request;
              request.set_text("abc");
              request.set_seed(7);
              request.set_max_tokens(48);
              request.mutable_sampling()->set_temperature(temperature);
              v1::SpeculationOptions& options = *request.mutable_speculation();
              options.set_rule(rule);
              if (rule == v1::RULE_LENIENT) options.set_leniency(0.5f);
              if (draft_temperature) options.set_draft_temperature(*draft_temperature);
              if (confidence) options.set_draft_min_confidence(*confidence);
              if (nodes) options.set_draft_nodes(*nodes);
              if (length == "fixed") options.set_fixed(3);
              if (length == "heuristic") options.set_length_policy(v1::LENGTH_POLICY_HEURISTIC);
              call(request);
            }
          }
        }
      }
    }
  }
}

TEST(DraftOptions, WhatAValidRequestAsksForNoDraftRefuses) {
  const ModelFacts model = Model();
  CommonLength lengths;
  int valid = 0, doubting = 0, trees = 0;
  ForEachRequest([&](const v1::GenerateRequest& wanted) {
    SCOPED_TRACE(wanted.ShortDebugString());
    absl::StatusOr<GenerationRequest> request = ValidateRequest(wanted, model);
    if (!request.ok()) return;
    request->seed = 7;
    ++valid;
    HarnessOptions options;
    options.lengths = &lengths;
    LoopHarness harness(*request, options);
    harness.target.max_nodes = harness.draft.max_nodes = 16;
    harness.draft.ends_by_confidence = true;
    harness.draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock&) {
      doubting += advance.min_confidence > 0 ? 1 : 0;
      trees += advance.max_nodes > 0 ? 1 : 0;
      return FakeDraft::Do::kAnswer;
    };
    harness.Start();
    harness.Run();
    ASSERT_TRUE(harness.ending.has_value() && harness.ending->status.ok());
    EXPECT_EQ(harness.plain_rounds(PlainCause::kDraftRefused), 0u);
    EXPECT_EQ(harness.plain_rounds(PlainCause::kDraftInvalid), 0u);
    EXPECT_GT(harness.ending->counts.draft_tokens, 0u);
    using acceptance::Rule;
    if (request->rule == Rule::kGreedy || request->rule == Rule::kCoupled) {
      EXPECT_EQ(harness.output(), harness.PlainIds());
    }
  });
  EXPECT_GT(valid, 500);
  EXPECT_GT(doubting, 100);
  EXPECT_GT(trees, 100);
}

// What the policy chooses by itself, text after text, where the request says nothing of shapes. The
// orchestrator has blocks prepared by the drafts that can; with others it keeps its other shapes.
TEST(DraftOptions, WhatThePolicyChoosesNoDraftRefuses) {
  ModelFacts model = Model();
  model.prepare = 16;
  int all_doubting = 0, prepared = 0, trees = 0;
  for (const float temperature : {0.0f, 0.8f}) {
    for (const auto draft_temperature : {std::optional<float>(), {0.0f}, {0.7f}}) {
      SCOPED_TRACE(absl::StrCat(temperature, " ", draft_temperature.value_or(-1)));
      CommonLength lengths;
      int advances = 0, doubting = 0;
      for (uint64_t text = 0; text < 40; ++text) {
        v1::GenerateRequest wanted;
        wanted.set_text("abc");
        wanted.set_seed(text);
        wanted.set_max_tokens(200);
        wanted.mutable_sampling()->set_temperature(temperature);
        if (draft_temperature.has_value()) {
          wanted.mutable_speculation()->set_draft_temperature(*draft_temperature);
        }
        absl::StatusOr<GenerationRequest> request = ValidateRequest(wanted, model);
        ASSERT_TRUE(request.ok()) << request.status();
        request->seed = text;
        HarnessOptions options;
        options.lengths = &lengths;
        LoopHarness harness(*request, options);
        // Where rows cost nothing trees are the best, so half of the texts have none.
        harness.target.max_nodes = harness.draft.max_nodes = text % 2 == 0 ? 16 : 0;
        harness.draft.ends_by_confidence = true;
        harness.draft.prepares = text % 4 >= 2;
        harness.draft.on_advance = [&](const DraftAdvance& advance, DraftReplyBlock&) {
          harness.clock.Advance(absl::Microseconds(400) * advance.max_draft_tokens);
          ++advances;
          doubting += advance.min_confidence > 0 ? 1 : 0;
          prepared += advance.max_outcomes > 0 ? 1 : 0;
          trees += advance.max_nodes > 0 ? 1 : 0;
          return FakeDraft::Do::kAnswer;
        };
        harness.Start();
        harness.Run();
        ASSERT_TRUE(harness.ending.has_value() && harness.ending->status.ok());
        EXPECT_EQ(harness.output(), harness.PlainIds());
        EXPECT_EQ(harness.plain_rounds(PlainCause::kDraftRefused), 0u);
      }
      EXPECT_GT(advances, 1000);
      all_doubting += doubting;
      if (temperature == 0 && draft_temperature.value_or(0) > 0) {
        EXPECT_EQ(doubting, 0) << "its candidates are drawn from a q";
      }
    }
  }
  EXPECT_GT(all_doubting, 0);
  EXPECT_GT(prepared, 100);
  EXPECT_GT(trees, 100);
}

}  // namespace
}  // namespace tandem::orchestrator::draft_options_test
