// The whole grids, for scripts/test --full: greedy equality on a hundred prompts of many kinds,
// and the distribution of a real model with a vocabulary small enough to enumerate.
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "tests/integration/distribution.h"
#include "tests/support/paths.h"

namespace tandem::testing {
namespace {

constexpr uint32_t kGridTokens = 128;

// One a line; \n stands for a new line.
std::vector<std::string> HundredPrompts() {
  std::vector<std::string> prompts;
  std::istringstream lines(ReadFile(SourcePath("tests/integration/prompts.txt")));
  for (std::string line; std::getline(lines, line);) {
    prompts.push_back(absl::StrReplaceAll(line, {{"\\n", "\n"}}));
  }
  return prompts;
}

TEST(FullGridTest, GreedyEqualityOnAHundredPrompts) {
  InProcessCluster cluster(DemoOptions());
  auto alone = LoadModel(DemoTarget());
  std::vector<v1::GenerateRequest> requests;
  std::vector<std::vector<uint32_t>> expected;
  std::vector<size_t> prompt_of;
  for (const std::string& text : HundredPrompts()) {
    const std::vector<uint32_t> prompt = *cluster.tokenizer().Encode(text);
    if (prompt.size() + kGridTokens > alone->info().context_length) continue;
    expected.push_back(
        GreedyAlone(*alone, prompt, kGridTokens, cluster.tokenizer().vocabulary_size()));
    for (uint32_t draft_tokens : {0, 1, 2, 4, 8}) {
      for (const std::string drafter : {"model", "prompt-lookup", "random"}) {
        if (draft_tokens == 0 && drafter != "model") continue;  // no drafter takes part
        requests.push_back(GreedyRequest(prompt, kGridTokens, draft_tokens, drafter));
        prompt_of.push_back(expected.size() - 1);
      }
    }
  }
  ASSERT_GE(expected.size(), 95u);
  const std::vector<Reply> replies = SendAll(cluster.channel(), requests, 32);
  for (size_t i = 0; i < replies.size(); ++i) {
    EXPECT_TRUE(replies[i].status.ok()) << replies[i].status;
    EXPECT_EQ(replies[i].ids, expected[prompt_of[i]]) << requests[i].speculation().DebugString();
  }
  EXPECT_TRUE(cluster.AllFreed());
}

TEST(FullGridTest, DistributionOfARealModel) {
  constexpr uint32_t kVocabulary = 8;
  ScratchFolder folder;
  const std::string target = folder.path() + "/target", draft = folder.path() + "/draft";
  WriteTinyLlama(target, kVocabulary, 1);
  WriteTinyLlama(draft, kVocabulary, 2);
  ClusterOptions options = PairOptions(target, draft);
  options.model_drafter.top_m = 4;
  options.loop.draft_wait = absl::Seconds(20);
  options.loop.draft_wait_floor = absl::Seconds(20);
  InProcessCluster cluster(std::move(options));
  auto alone = LoadModel(target, 1);
  for (const sampling::SamplingParameters& sampling :
       {sampling::SamplingParameters{1, 0, 1}, sampling::SamplingParameters{0.7, 5, 0.95}}) {
    TextsOptions texts;
    texts.sampling = sampling;
    texts.requests = 6000;
    const Judgement judgement =
        MeasureTexts(cluster, texts, kVocabulary, [&](absl::Span<const uint32_t> context) {
          auto cache = *alone->NewCache(static_cast<int>(context.size()));
          model::ForwardPart part{cache.get(), context, static_cast<int>(context.size()) - 1};
          return sampling::MakeDistribution(alone->Forward({&part, 1})->row(0), kVocabulary,
                                            sampling);
        });
    SCOPED_TRACE(judgement.ToString());
    EXPECT_TRUE(judgement.joint.Passes());
    EXPECT_TRUE(judgement.rest.Passes());
    EXPECT_GT(judgement.accepted, 0);
    EXPECT_GT(judgement.rejected_rounds, 0);
  }
}

}  // namespace
}  // namespace tandem::testing
