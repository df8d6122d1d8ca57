// The samples of one request are independent texts, each of the target's distribution: the joint
// law of what two of them begin with is the product. A fault that gives all of them one noise is
// caught.
#include <vector>

#include "common/base/check.h"
#include "gtest/gtest.h"
#include "tests/integration/planted.h"

namespace tandem::testing::samples_test {
namespace {

constexpr uint32_t kFirst = 2;  // tokens of each sample that are judged
constexpr int kRequests = 4000;

TextsOptions Texts(v1::Rule rule) {
  TextsOptions texts;
  texts.rule = rule;
  texts.draft_tokens = 2;
  texts.text_tokens = 4;
  texts.requests = kRequests;
  return texts;
}

// The probability of each beginning of kFirst tokens.
std::vector<double> Beginnings(const TablePair& pair, const TextsOptions& texts) {
  const TargetDistribution p = TableDistribution(pair, texts.sampling, texts.prompt.size());
  std::vector<double> beginnings;
  for (uint32_t a = 0; a < pair.vocabulary; ++a) {
    for (uint32_t b = 0; b < pair.vocabulary; ++b) {
      std::vector<uint32_t> context = texts.prompt;
      const double first = p(context)(a);
      context.push_back(a);
      beginnings.push_back(first * p(context)(b));
    }
  }
  return beginnings;
}

// Two samples per request: their beginnings, jointly.
ChiSquare JudgePairs(const TextsOptions& texts, JudgeFault fault) {
  static_assert(kFirst == 2);
  const TablePair pair = {.vocabulary = 4, .top_m = 3};
  ClusterOptions options = TableOptions(pair);
  options.judge = PlantedJudge(pair, fault, texts);
  InProcessCluster cluster(std::move(options));
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < texts.requests; ++i) {
    requests.push_back(TextRequest(texts, texts.first_seed + i));
    requests.back().set_samples(2);
  }
  const std::vector<double> each = Beginnings(pair, texts);
  std::vector<double> product;
  for (double a : each) {
    for (double b : each) product.push_back(a * b);
  }
  std::vector<int64_t> counts(product.size());
  int64_t accepted = 0;
  for (const Reply& reply : SendAll(cluster.channel(), requests, 64)) {
    TANDEM_CHECK_OK(reply.status);
    TANDEM_CHECK(reply.samples.size() == 2);
    size_t cell = 0;
    for (const SampleReply& sample : reply.samples) {
      TANDEM_CHECK(sample.ids.size() == texts.text_tokens);
      for (uint32_t i = 0; i < kFirst; ++i) cell = cell * pair.vocabulary + sample.ids[i];
    }
    ++counts[cell];
    accepted += reply.record().accepted_tokens();
  }
  EXPECT_GT(accepted, texts.requests);
  EXPECT_TRUE(cluster.AllFreed());
  return GoodnessOfFit(product, counts);
}

class SamplesTest : public ::testing::TestWithParam<v1::Rule> {};

TEST_P(SamplesTest, AreIndependent) {
  const ChiSquare pairs = JudgePairs(Texts(GetParam()), JudgeFault::kNone);
  RecordProperty("judgement", pairs.ToString());
  EXPECT_TRUE(pairs.Passes()) << pairs.ToString();
}

TEST_P(SamplesTest, OneNoiseForAllIsCaught) {
  const ChiSquare pairs = JudgePairs(Texts(GetParam()), JudgeFault::kOneNoiseForAllSamples);
  RecordProperty("judgement", pairs.ToString());
  EXPECT_TRUE(pairs.ControlIsCaught()) << pairs.ToString();
}

INSTANTIATE_TEST_SUITE_P(Rules, SamplesTest,
                         ::testing::Values(v1::RULE_SPECULATIVE, v1::RULE_BLOCK, v1::RULE_COUPLED),
                         [](const auto& info) { return v1::Rule_Name(info.param); });

}  // namespace
}  // namespace tandem::testing::samples_test
