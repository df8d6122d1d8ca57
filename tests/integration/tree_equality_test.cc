// Trees of draft tokens through the three services: the text is, id for id, what the target writes
// alone, whatever the trees are; the record says what was drafted; what nobody serves is refused.
#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/alone.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"
#include "tests/netproxy/netproxy.h"

namespace tandem::testing::tree_equality_test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kTokens = 100;

struct Case {
  double temperature;
  bool looks_back;
};

std::string Name(const Case& test) {
  return absl::StrCat("Temperature", static_cast<int>(10 * test.temperature),
                      test.looks_back ? "LooksBack" : "");
}
void PrintTo(const Case& test, std::ostream* out) { *out << Name(test); }

// Trees in which the text's own tokens stand among others at any place, for as long as a chance
// lets them; wrong in all other respects.
class Planted final : public draft_service::Drafter {
 public:
  // `text`: the prompt, and what the target says after it.
  Planted(std::vector<uint32_t> text, uint32_t vocabulary)
      : text_(std::move(text)), vocabulary_(vocabulary) {}

  absl::Status Accept(uint32_t keep, absl::Span<const uint32_t> tokens) override {
    committed_ = keep + tokens.size();
    return absl::OkStatus();
  }
  absl::StatusOr<speculation::CandidateTree> Propose(uint32_t) override {
    return speculation::CandidateTree();
  }
  absl::StatusOr<speculation::CandidateTree> ProposeTree(
      const draft_service::BlockShape& shape) override {
    speculation::CandidateTree tree;
    uint32_t end = 0;
    for (uint32_t depth = 0; depth < shape.max_draft_tokens; ++depth) {
      const size_t at = committed_ + depth;
      if (at >= text_.size() || tree.size() + 3 > shape.max_nodes) break;
      const uint32_t right = text_[at];
      const bool plants = random_() % 5 != 0;
      std::vector<uint32_t> siblings = {(right + 1) % vocabulary_, (right + 9) % vocabulary_};
      if (plants) siblings.insert(siblings.begin() + random_() % 3, right);
      uint32_t next = 0;
      for (const uint32_t token : siblings) {
        tree.tokens.push_back(token);
        tree.parents.push_back(end);
        if (token == right) next = static_cast<uint32_t>(tree.size());
      }
      if (!plants) break;
      end = next;
    }
    return tree;
  }

 private:
  const std::vector<uint32_t> text_;
  const uint32_t vocabulary_;
  size_t committed_ = 0;
  std::mt19937 random_{7};
};

class TreeEqualityTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    tokenizer_ = LoadTokenizer(DemoTarget());
    model_ = LoadModel(DemoTarget());
    prompt_ = *tokenizer_->Encode(
        "The old captain looked at the sea and said that the sea was the old sea, and the captain");
    options_.sampling.temperature = GetParam().temperature;
    if (GetParam().looks_back) {
      options_.sampling.frequency_penalty = 0.5;
      options_.sampling.repetition_penalty = 1.1;
    }
    options_.seed = 2027;
    options_.max_tokens = kTokens;
    options_.vocabulary_size = tokenizer_->vocabulary_size();
    expected_ = PlainAlone(*model_, prompt_, options_);
    ASSERT_EQ(expected_.size(), kTokens);
  }

  v1::GenerateRequest Request(uint32_t draft_tokens, uint32_t nodes,
                              const std::string& drafter = "model") const {
    v1::GenerateRequest request = CoupledRequest(prompt_, options_, draft_tokens);
    request.mutable_speculation()->set_drafter(drafter);
    request.mutable_speculation()->set_draft_nodes(nodes);
    return request;
  }

  // In the place of the drafter `model`.
  ClusterOptions WithPlanted() const {
    ClusterOptions options = PatientDemoOptions();
    std::vector<uint32_t> text = prompt_;
    text.insert(text.end(), expected_.begin(), expected_.end());
    options.instead_of_model.make = [text, size = options_.vocabulary_size](
                                        const speculation::SequenceSettings&,
                                        speculation::Proposal) {
      return absl::StatusOr<std::unique_ptr<draft_service::Drafter>>(
          std::make_unique<Planted>(text, size));
    };
    options.instead_of_model.trees = true;
    return options;
  }

  ClusterOptions BehindProxies(ClusterOptions options) {
    const auto behind = [](std::unique_ptr<netproxy::NetProxy>& proxy) {
      return [&proxy](const std::string& address) {
        proxy = *netproxy::NetProxy::Start(address);
        return proxy->address();
      };
    };
    options.target_proxy = behind(target_proxy_);
    options.draft_proxy = behind(draft_proxy_);
    return options;
  }

  void ExpectSameText(const Reply& reply) const {
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.ids, expected_);
    EXPECT_TRUE(reply.record().exact());
  }

  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::unique_ptr<model::LanguageModel> model_;
  std::vector<uint32_t> prompt_;
  AloneOptions options_;
  std::vector<uint32_t> expected_;
  // They outlive the cluster's channels.
  std::unique_ptr<netproxy::NetProxy> target_proxy_, draft_proxy_;
};

TEST_P(TreeEqualityTest, WithPlantedTrees) {
  InProcessCluster cluster(WithPlanted());
  v1::GenerateRequest request = Request(6, 24);
  request.set_round_records(true);
  request.mutable_logprobs()->set_top(2);
  const Reply reply = Send(cluster.channel(), request);
  ExpectSameText(reply);
  const v1::AcceptanceRecord& record = reply.record();
  EXPECT_GT(record.tree_rounds(), 10u) << record.DebugString();
  EXPECT_GT(record.accepted_tokens(), 50u) << record.DebugString();
  uint32_t not_first = 0;
  for (const v1::RoundRecord& round : reply.rounds) {
    EXPECT_LE(round.draft_depth(), 6u);
    EXPECT_LE(round.draft_tokens(), 24u);
    EXPECT_LE(round.accepted_tokens(), round.draft_depth());
    EXPECT_EQ(round.node() == 0, round.accepted_tokens() == 0);
    not_first += round.node() > round.accepted_tokens() ? 1 : 0;
  }
  EXPECT_GT(not_first, 5u) << "paths that are not the first children's stood";
  // The log probabilities are those of the target alone.
  request = Request(0, 0);
  request.mutable_logprobs()->set_top(2);
  const Reply alone = Send(cluster.channel(), request);
  ExpectSameText(alone);
  EXPECT_EQ(alone.samples[0].logprobs, reply.samples[0].logprobs);
  EXPECT_TRUE(cluster.AllFreed());
}

// Beside chains and trees of others, of both rules.
TEST_P(TreeEqualityTest, WithTreesOfAnyDrafterAloneAndAmongOthers) {
  InProcessCluster cluster(PatientDemoOptions());
  std::vector<v1::GenerateRequest> requests = {
      Request(6, 16, "context-ngram"), Request(3, 32, "context-ngram"),
      Request(16, 5, "context-ngram"), Request(1, 8, "context-ngram")};
  for (const char* drafter : {"corpus-unigram", "corpus-bigram", "mixed"}) {
    requests.push_back(Request(5, 20, drafter));
  }
  requests.push_back(Request(4, 12, "model"));
  requests.push_back(Request(6, 24, "model"));
  requests.back().mutable_speculation()->set_proposal(v1::PROPOSAL_GREEDY);
  requests.push_back(Request(4, 12, "context-ngram"));
  requests.back().mutable_speculation()->set_auto_(true);
  for (const v1::GenerateRequest& request : requests) {
    SCOPED_TRACE(request.speculation().ShortDebugString());
    const Reply reply = Send(cluster.channel(), request);
    ExpectSameText(reply);
    EXPECT_GT(reply.record().draft_tokens(), 0u);
  }
  const size_t own = requests.size();
  for (uint32_t i = 0; i < 8; ++i) {
    requests.push_back(Request(1 + i % 5, i % 2 == 0 ? 0 : 4 * i, "context-ngram"));
    requests.back().set_seed(i);
    requests.back().mutable_sampling()->set_temperature(i % 3 == 0 ? 0.0f : 0.9f);
  }
  const std::vector<Reply> replies = SendAll(cluster.channel(), requests, 32);
  for (size_t i = 0; i < own; ++i) ExpectSameText(replies[i]);
  for (const Reply& reply : replies) EXPECT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_TRUE(cluster.AllFreed());
}

// The same draft model, and as many of its passes per round. At temperature 0 this text repeats
// itself, and a chain is accepted as a whole almost always.
TEST_P(TreeEqualityTest, TreesOfAModelTakeFewerRoundsThanItsChains) {
  InProcessCluster cluster(PatientDemoOptions());
  const Reply chain = Send(cluster.channel(), Request(4, 0));
  const Reply tree = Send(cluster.channel(), Request(4, 16));
  ExpectSameText(chain);
  ExpectSameText(tree);
  EXPECT_GT(tree.record().tree_rounds(), 5u) << tree.record().DebugString();
  EXPECT_LT(tree.record().rounds(),
            GetParam().temperature == 0 ? kTokens / 2 : chain.record().rounds());
  EXPECT_TRUE(cluster.AllFreed());
}

// Chains that end where their drafter doubts, by the request's wish and by the policy's.
TEST_P(TreeEqualityTest, WithChainsThatDoubtEnds) {
  InProcessCluster cluster(PatientDemoOptions());
  const Reply whole = Send(cluster.channel(), Request(6, 0));
  const auto per_round = [](const v1::AcceptanceRecord& record) {
    return static_cast<double>(record.draft_tokens()) / record.rounds();
  };
  for (const std::string drafter : {"model", "cascade", "prompt-lookup"}) {
    for (const float least : {0.2f, 0.6f, 1.0f}) {
      SCOPED_TRACE(absl::StrCat(drafter, " ", least));
      v1::GenerateRequest request = Request(6, 0, drafter);
      request.mutable_speculation()->set_draft_min_confidence(least);
      const Reply reply = Send(cluster.channel(), request);
      ExpectSameText(reply);
      if (drafter == "prompt-lookup") continue;  // it has no doubts
      EXPECT_LT(per_round(reply.record()), per_round(whole.record()));
      if (least == 1) {
        EXPECT_LE(per_round(reply.record()), 1);
      }
    }
  }
  v1::GenerateRequest request = Request(0, 0);
  request.mutable_speculation()->set_auto_(true);
  for (int i = 0; i < 4; ++i) ExpectSameText(Send(cluster.channel(), request));
  EXPECT_TRUE(cluster.AllFreed());
}

// A draft model's trees: each peer is lost in mid-text, and the draft model's new cache and the
// target's go on from the whole prefix.
TEST_P(TreeEqualityTest, TreesOfAModelAfterEachPeerWasLost) {
  InProcessCluster cluster(BehindProxies(PatientDemoOptions()));
  int done = 0;
  const Reply reply = Send(cluster.channel(), Request(4, 16), [&](const Reply& so_far) {
    if (done == 0 && so_far.ids.size() >= 20) {
      ++done;
      draft_proxy_->Reset();
    } else if (done == 1 && so_far.ids.size() >= 60) {
      ++done;
      target_proxy_->Reset();
    }
  });
  ExpectSameText(reply);
  EXPECT_EQ(done, 2);
  EXPECT_GE(reply.record().target_replays(), 1u) << reply.record().DebugString();
  EXPECT_GE(reply.record().draft_reconnections(), 1u) << reply.record().DebugString();
  EXPECT_GT(reply.record().tree_rounds(), 5u) << reply.record().DebugString();
  EXPECT_TRUE(cluster.AllFreed());
}

INSTANTIATE_TEST_SUITE_P(Options, TreeEqualityTest,
                         ::testing::Values(Case{0, false}, Case{0.7, true}, Case{1, false}),
                         [](const auto& info) { return Name(info.param); });

TEST(TreeRefusalTest, WhatNobodyServesIsNamed) {
  InProcessCluster cluster(PatientDemoOptions());
  AloneOptions options;
  options.sampling.temperature = 1;
  options.seed = 1;
  options.max_tokens = 4;
  const std::vector<uint32_t> prompt = {5, 6, 7};
  struct Test {
    std::function<void(v1::GenerateRequest&)> change;
    std::string says;
  };
  const std::vector<Test> tests = {
      {[](auto& r) { r.mutable_speculation()->set_draft_nodes(33); }, "trees of at most 32"},
      {[](auto& r) { r.mutable_speculation()->set_drafter("prompt-lookup"); },
       "drafter \"prompt-lookup\" makes only chains; those that make trees are"},
  };
  for (const Test& test : tests) {
    v1::GenerateRequest request = CoupledRequest(prompt, options, 4);
    request.mutable_speculation()->set_drafter("context-ngram");
    request.mutable_speculation()->set_draft_nodes(8);
    test.change(request);
    // Until the draft has greeted, the orchestrator does not know what makes trees.
    Reply reply;
    const bool refused = WaitUntil([&] {
      reply = Send(cluster.channel(), request);
      return !reply.status.ok();
    });
    ASSERT_TRUE(refused) << test.says;
    EXPECT_EQ(reply.status.code(), absl::StatusCode::kInvalidArgument) << test.says;
    EXPECT_THAT(std::string(reply.status.message()), HasSubstr(test.says));
    EXPECT_THAT(std::string(reply.status.message()), HasSubstr("speculation.draft_nodes"));
  }
}

}  // namespace
}  // namespace tandem::testing::tree_equality_test
