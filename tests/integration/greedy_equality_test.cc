// At temperature 0 the three services write what the target writes alone, id for id, whatever
// drafts.
#include <string>
#include <utility>
#include <vector>

#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/models.h"
#include "tests/integration/requests.h"
#include "tests/support/json.h"
#include "tests/support/paths.h"

namespace tandem::testing {
namespace {

constexpr uint32_t kDraftTokens[] = {1, 2, 4, 8};
const char* const kDrafters[] = {"model",          "prompt-lookup", "random", "context-ngram",
                                 "corpus-unigram", "corpus-bigram", "mixed",  "recall",
                                 "cascade",        "lookup-first"};

// What one drafter did over all its requests.
struct Sums {
  uint64_t drafted = 0;
  uint64_t accepted = 0;
};

struct Prompt {
  std::vector<uint32_t> ids;
  std::vector<uint32_t> expected;
};

// Every prompt without a draft and with every drafter, all at once. The numbers of draft tokens
// take turns: over four prompts each drafter has each of them.
std::vector<Sums> ExpectAllEqual(InProcessCluster& cluster, const std::vector<Prompt>& prompts,
                                 int at_once) {
  struct Case {
    size_t prompt, drafter;
  };
  std::vector<v1::GenerateRequest> requests;
  std::vector<Case> cases;
  const auto add = [&](size_t prompt, size_t drafter, uint32_t draft_tokens) {
    requests.push_back(GreedyRequest(prompts[prompt].ids,
                                     static_cast<uint32_t>(prompts[prompt].expected.size()),
                                     draft_tokens, kDrafters[drafter]));
    requests.back().set_cache_scope("one");  // recall has answers of this one
    cases.push_back({prompt, drafter});
  };
  for (size_t d = 0; d < std::size(kDrafters); ++d) {
    for (size_t p = 0; p < prompts.size(); ++p) {
      add(p, d, kDraftTokens[(p + d) % std::size(kDraftTokens)]);
    }
  }
  for (size_t p = 0; p < prompts.size(); ++p) add(p, 0, 0);
  std::vector<Reply> replies = SendAll(cluster.channel(), requests, at_once);
  std::vector<Sums> sums(std::size(kDrafters));
  for (size_t i = 0; i < replies.size(); ++i) {
    const Reply& reply = replies[i];
    EXPECT_TRUE(reply.status.ok()) << reply.status << "\n" << requests[i].ShortDebugString();
    EXPECT_EQ(reply.ids, prompts[cases[i].prompt].expected) << requests[i].ShortDebugString();
    EXPECT_TRUE(reply.record().exact());
    sums[cases[i].drafter].drafted += reply.record().draft_tokens();
    sums[cases[i].drafter].accepted += reply.record().accepted_tokens();
  }
  EXPECT_TRUE(cluster.AllFreed());
  return sums;
}

void ExpectThatDraftsWereUsed(const std::vector<Sums>& sums) {
  for (size_t d = 0; d < sums.size(); ++d) EXPECT_GT(sums[d].drafted, 0u) << kDrafters[d];
  EXPECT_GT(sums[0].accepted, 0u);
  EXPECT_LT(sums[0].accepted, sums[0].drafted);
}

TEST(GreedyEqualityTest, GoldenIdsOfStories260k) {
  const std::string target = SharedPath("models/stories260k-hf");
  const std::string draft = SharedPath("models/stories260k-hf-draft4l");
  if (!Exists(target) || !Exists(draft)) GTEST_SKIP() << "not here: " << target;
  InProcessCluster cluster(PairOptions(target, draft));
  std::vector<Prompt> prompts;
  std::vector<std::string> texts;
  const base::JsonValue goldens = ParseJson(ReadFile(target + "/golden_greedy.json"));
  for (const base::JsonValue& golden : goldens.Elements()) {
    prompts.push_back({IdsOf(golden["prompt_ids"]), IdsOf(golden["greedy_ids"])});
    auto ids = cluster.tokenizer().Encode(golden["prompt"].String().value());
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(*ids, prompts.back().ids);
    texts.push_back(golden["text"].String().value());
  }
  ASSERT_GE(prompts.size(), 3u);
  ExpectThatDraftsWereUsed(ExpectAllEqual(cluster, prompts, 16));
  // The text too, which has come in pieces.
  Reply reply = Send(cluster.channel(), GreedyRequest(prompts[0].ids, 64, 4));
  EXPECT_EQ(reply.text, texts[0]);
}

TEST(GreedyEqualityTest, DemoPair) {
  InProcessCluster cluster(DemoOptions());
  auto alone = LoadModel(DemoTarget());
  const base::JsonValue goldens =
      ParseJson(ReadFile(SourcePath("tests/integration/goldens/demo_greedy.json")));
  ASSERT_EQ(goldens.Elements().size(), TenPrompts().size());
  std::vector<Prompt> prompts;
  for (const std::string& text : TenPrompts()) {
    std::vector<uint32_t> ids = *cluster.tokenizer().Encode(text);
    std::vector<uint32_t> expected =
        GreedyAlone(*alone, ids, 48, cluster.tokenizer().vocabulary_size());
    // By another implementation of tokenizer and model.
    const base::JsonValue golden = goldens.Elements()[prompts.size()];
    EXPECT_EQ(golden["prompt"].String(), text);
    EXPECT_EQ(ids, IdsOf(golden["prompt_ids"]));
    EXPECT_EQ(expected, IdsOf(golden["greedy_ids"]));
    prompts.push_back({std::move(ids), std::move(expected)});
  }
  ExpectThatDraftsWereUsed(ExpectAllEqual(cluster, prompts, 16));
}

}  // namespace
}  // namespace tandem::testing
