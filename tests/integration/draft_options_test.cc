// What a request may ask of its draft, in every combination, of a draft service: it refuses nothing
// that the orchestrator let through.
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/models.h"
#include "tests/integration/requests.h"
#include "tests/support/wait.h"

namespace tandem::testing::draft_options_test {
namespace {

class DraftOptionsTest : public ::testing::Test {
 protected:
  // With a small model, as target and draft: texts are of no matter here.
  void SetUp() override {
    WriteTinyLlama(folder_.path(), 26, 1);
    ClusterOptions options;
    options.target_model = LoadModel(folder_.path());
    options.draft_model = LoadModel(folder_.path());
    options.tokenizer = LettersTokenizer(26);
    options.loop.draft_wait = options.loop.draft_wait_floor = absl::Seconds(20);
    options.without_sockets = true;
    cluster_.emplace(std::move(options));
    // Which drafters do what is known once the draft has greeted.
    v1::GenerateRequest unable = Request(1, 0);
    unable.mutable_speculation()->set_drafter("prompt-lookup");
    unable.mutable_speculation()->set_draft_nodes(8);
    ASSERT_TRUE(WaitUntil([&] { return !Send(cluster_->channel(), unable).status.ok(); }));
  }

  static v1::GenerateRequest Request(uint32_t max_tokens, float temperature) {
    v1::GenerateRequest request;
    request.set_text("abcabcab");
    request.set_seed(7);
    request.set_max_tokens(max_tokens);
    request.mutable_stop()->set_ignore_eos(true);
    request.mutable_sampling()->set_temperature(temperature);
    return request;
  }

  ScratchFolder folder_;
  std::optional<InProcessCluster> cluster_;
};

void AddShapes(const v1::GenerateRequest& request, std::vector<v1::GenerateRequest>& to) {
  for (const auto draft_temperature : {std::optional<float>(), {0.0f}, {0.7f}}) {
    for (const auto proposal :
         {v1::PROPOSAL_UNSPECIFIED, v1::PROPOSAL_SAMPLED, v1::PROPOSAL_GREEDY}) {
      for (const auto confidence : {std::optional<float>(), {0.5f}}) {
        for (const auto nodes : {std::optional<uint32_t>(), {8}}) {
          v1::GenerateRequest& one = to.emplace_back(request);
          v1::SpeculationOptions& options = *one.mutable_speculation();
          if (draft_temperature) options.set_draft_temperature(*draft_temperature);
          if (confidence) options.set_draft_min_confidence(*confidence);
          if (nodes) options.set_draft_nodes(*nodes);
          options.set_proposal(proposal);
        }
      }
    }
  }
}

TEST_F(DraftOptionsTest, TheDraftRefusesNothingThatWasLetThrough) {
  std::vector<v1::GenerateRequest> requests;
  for (const v1::Rule rule : {v1::RULE_UNSPECIFIED, v1::RULE_SPECULATIVE, v1::RULE_BLOCK,
                              v1::RULE_COUPLED, v1::RULE_LENIENT}) {
    for (const float temperature : {0.0f, 0.8f}) {
      for (const std::string drafter :
           {"", "model", "cascade", "prompt-lookup", "context-ngram", "mixed", "two", "auto"}) {
        v1::GenerateRequest request = Request(5, temperature);
        v1::SpeculationOptions& options = *request.mutable_speculation();
        options.set_rule(rule);
        if (rule == v1::RULE_LENIENT) options.set_leniency(0.5f);
        options.set_fixed(2);
        if (drafter == "two") {
          options.add_drafters("model");
          options.add_drafters("context-ngram");
        } else {
          options.set_drafter(drafter);
        }
        AddShapes(request, requests);
      }
    }
  }
  int served = 0;
  const std::vector<Reply> replies = SendAll(cluster_->channel(), requests, 32);
  for (size_t i = 0; i < replies.size(); ++i) {
    SCOPED_TRACE(requests[i].ShortDebugString());
    const Reply& reply = replies[i];
    if (reply.status.code() == absl::StatusCode::kInvalidArgument) continue;
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    ++served;
    EXPECT_EQ(reply.Rounds("draft-refused"), 0u);
    EXPECT_EQ(reply.Rounds("draft-invalid"), 0u);
  }
  EXPECT_GT(served, 800);
}

}  // namespace
}  // namespace tandem::testing::draft_options_test
