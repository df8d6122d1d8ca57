// Rules greedy and coupled write what the target writes alone, for every drafter, chains and trees,
// over HumanEval, GSM8K, MT-Bench, and a set that is to be copied and summed up from our own
// documents. All of it in the label full; what is short of it: greedy_equality_test.cc,
// coupled_equality_test.cc, tree_equality_test.cc.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "gtest/gtest.h"
#include "tests/integration/alone.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"
#include "tests/support/json.h"
#include "tests/support/paths.h"

namespace tandem::testing::prompt_sets_test {
namespace {

std::vector<std::string> PublicSet(const std::string& name) {
  std::vector<std::string> prompts;
  const std::string text =
      ReadFile(SourcePath(absl::StrCat("tests/integration/prompt_sets/", name, ".jsonl")));
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    prompts.push_back(std::string(*ParseJson(std::string(line)).String()));
  }
  return prompts;
}

// Paragraphs of technical documents, to be copied and to be summed up.
std::vector<std::string> Documents() {
  std::vector<std::string> prompts;
  for (const char* page : {"docs/ARCHITECTURE.md", "docs/ngrams.md", "docs/theory.md"}) {
    for (const absl::string_view paragraph :
         absl::StrSplit(ReadFile(SourcePath(page)), "\n\n", absl::SkipEmpty())) {
      if (paragraph.size() < 300 || paragraph.size() > 900) continue;
      const bool copies = prompts.size() % 2 == 0;
      prompts.push_back(
          absl::StrCat(copies ? "Copy the following text.\n\n" : "Sum up the following text.\n\n",
                       paragraph, copies ? "\n\nThe copy:\n\n" : "\n\nThe summary:\n\n"));
    }
  }
  return prompts;
}

struct PromptSet {
  const char* name;
  std::vector<std::string> (*prompts)();
};

const PromptSet kSets[] = {{"HumanEval", [] { return PublicSet("humaneval"); }},
                           {"GSM8K", [] { return PublicSet("gsm8k"); }},
                           {"MTBench", [] { return PublicSet("mt_bench"); }},
                           {"Documents", Documents}};

constexpr size_t kMaxPrompt = 900;  // tokens; longer ones are left out
constexpr uint32_t kTokens = 64;

class PromptSetsFullTest : public ::testing::TestWithParam<PromptSet> {};

TEST_P(PromptSetsFullTest, EveryDrafterGivesTheTargetsTextOfAllPrompts) {
  InProcessCluster cluster(PatientDemoOptions());
  const auto alone = LoadModel(DemoTarget());
  const std::vector<std::string> prompts = GetParam().prompts();
  ASSERT_GE(prompts.size(), 20u);
  std::vector<v1::GenerateRequest> requests;
  std::vector<std::vector<uint32_t>> expected;
  size_t taken = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<uint32_t> prompt = *cluster.tokenizer().Encode(prompts[i]);
    if (prompt.empty() || prompt.size() > kMaxPrompt) continue;
    ++taken;
    for (const double temperature : {0.0, 1.0}) {
      AloneOptions options;
      options.sampling.temperature = temperature;
      options.seed = 100 + i;
      options.max_tokens = kTokens;
      options.vocabulary_size = cluster.tokenizer().vocabulary_size();
      const std::vector<uint32_t> text = PlainAlone(*alone, prompt, options);
      const auto add = [&](const std::string& drafter, uint32_t draft_tokens, uint32_t nodes) {
        requests.push_back(CoupledRequest(prompt, options, draft_tokens));
        requests.back().mutable_speculation()->set_drafter(drafter);
        requests.back().mutable_speculation()->set_draft_nodes(nodes);
        requests.back().set_cache_scope("one");
        expected.push_back(text);
      };
      for (const char* drafter : {"model", "cascade", "prompt-lookup", "recall", "context-ngram",
                                  "corpus-unigram", "corpus-bigram", "mixed", "random"}) {
        add(drafter, 4, 0);
      }
      for (const char* drafter : {"model", "context-ngram", "corpus-bigram", "mixed"}) {
        add(drafter, 5, 20);
      }
      for (const auto policy : {v1::LENGTH_POLICY_AUTO, v1::LENGTH_POLICY_HEURISTIC}) {
        add("model", 4, 0);
        v1::SpeculationOptions& speculation = *requests.back().mutable_speculation();
        speculation.set_auto_(true);
        speculation.set_length_policy(policy);
        speculation.clear_draft_nodes();
      }
    }
  }
  const std::vector<Reply> replies = SendAll(cluster.channel(), requests, 16);
  uint64_t trees = 0, accepted = 0;
  for (size_t i = 0; i < replies.size(); ++i) {
    ASSERT_TRUE(replies[i].status.ok()) << replies[i].status;
    ASSERT_EQ(replies[i].ids, expected[i]) << requests[i].ShortDebugString();
    EXPECT_TRUE(replies[i].record().exact());
    trees += replies[i].record().tree_rounds();
    accepted += replies[i].record().accepted_tokens();
  }
  EXPECT_GT(trees, 0u);
  EXPECT_GT(accepted, 0u);
  std::printf("%zu prompts, %zu texts, %lu draft tokens accepted\n", taken, replies.size(),
              static_cast<unsigned long>(accepted));
  EXPECT_TRUE(cluster.AllFreed());
}

INSTANTIATE_TEST_SUITE_P(Sets, PromptSetsFullTest, ::testing::ValuesIn(kSets),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::testing::prompt_sets_test
