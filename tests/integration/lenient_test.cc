// Rule lenient through the services: no token comes more often than p/l says, none that p rules
// out, at temperature 0 none below l of the largest; it is not exact, says so, and the test of the
// distribution sees it.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "gtest/gtest.h"
#include "tests/integration/table_pair.h"

namespace tandem::testing {
namespace {

constexpr double kLeniency = 0.5;
constexpr TablePair kPair;

TextsOptions Texts() {
  TextsOptions texts;
  texts.rule = v1::RULE_LENIENT;
  texts.leniency = kLeniency;
  texts.requests = 1500;
  texts.samples = 4;
  return texts;
}

std::vector<Reply> Ask(const TextsOptions& texts) {
  InProcessCluster cluster(TableOptions(kPair));
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < texts.requests; ++i) {
    requests.push_back(TextRequest(texts, texts.first_seed + i));
  }
  std::vector<Reply> replies = SendAll(cluster.channel(), requests, 64);
  for (const Reply& reply : replies) {
    TANDEM_CHECK_OK(reply.status);
    EXPECT_FALSE(reply.started.exact());
    EXPECT_FALSE(reply.record().exact());
    EXPECT_EQ(reply.record().rule(), v1::RULE_LENIENT);
  }
  return replies;
}

// log of the Chernoff bound on P(X >= count) for n draws of probability at most p each.
double LogBound(int64_t count, int64_t n, double p) {
  const double share = static_cast<double>(count) / static_cast<double>(n);
  if (share <= p) return 0;
  const double rest = share < 1 ? (1 - share) * std::log((1 - share) / (1 - p)) : 0;
  return -static_cast<double>(n) * (share * std::log(share / p) + rest);
}

using Context = std::pair<uint32_t, uint32_t>;

// What followed each two tokens, over all texts.
std::map<Context, std::vector<int64_t>> Followers(const std::vector<Reply>& replies,
                                                  const TextsOptions& texts) {
  std::map<Context, std::vector<int64_t>> followers;
  for (const Reply& reply : replies) {
    for (const SampleReply& sample : reply.samples) {
      std::vector<uint32_t> tokens = texts.prompt;
      tokens.insert(tokens.end(), sample.ids.begin(), sample.ids.end());
      for (size_t i = texts.prompt.size(); i < tokens.size(); ++i) {
        std::vector<int64_t>& counts = followers[{tokens[i - 2], tokens[i - 1]}];
        counts.resize(kPair.vocabulary);
        ++counts[tokens[i]];
      }
    }
  }
  return followers;
}

TEST(LenientTest, NoTokenComesMoreOftenThanAllowed) {
  TextsOptions texts = Texts();
  texts.sampling.top_k = 4;  // one of five never comes
  const TargetDistribution p = TableDistribution(kPair, texts.sampling, texts.prompt.size());
  int above_p = 0;
  for (const auto& [context, counts] : Followers(Ask(texts), texts)) {
    const sampling::Distribution row = p(std::vector<uint32_t>{context.first, context.second});
    int64_t seen = 0;
    for (int64_t count : counts) seen += count;
    for (uint32_t token = 0; token < kPair.vocabulary; ++token) {
      if (row(token) == 0) {
        EXPECT_EQ(counts[token], 0) << token;
        continue;
      }
      const double max = std::min(1.0, row(token) / kLeniency);
      // 25 contexts of 5 tokens: a right build fails with a probability below 125 * 1e-9.
      EXPECT_GT(LogBound(counts[token], seen, max), std::log(1e-9))
          << context.first << " " << context.second << " " << token << ": " << counts[token]
          << " of " << seen << ", at most " << max;
      if (LogBound(counts[token], seen, row(token)) < std::log(1e-9)) ++above_p;
    }
  }
  EXPECT_GT(above_p, 3);  // so this test would see tokens that come too often
}

TEST(LenientTest, IsSeenNotToBeExact) {
  const TextsOptions texts = Texts();
  TextJudge judge(texts, kPair.vocabulary,
                  TableDistribution(kPair, texts.sampling, texts.prompt.size()));
  for (const Reply& reply : Ask(texts)) judge.Add(reply);
  const Judgement judgement = judge.Finish();
  RecordProperty("judgement", judgement.ToString());
  SCOPED_TRACE(judgement.ToString());
  EXPECT_TRUE(judgement.joint.ControlIsCaught());
  EXPECT_TRUE(judgement.rest.ControlIsCaught());
}

// More is accepted than under the exact rule; with leniency 1 the distribution is right, though not
// said to be.
TEST(LenientTest, WithoutLeniencyItIsTheSpeculativeRule) {
  TextsOptions texts = Texts();
  texts.leniency = 1;
  TextJudge judge(texts, kPair.vocabulary,
                  TableDistribution(kPair, texts.sampling, texts.prompt.size()));
  for (const Reply& reply : Ask(texts)) judge.Add(reply);
  const Judgement strict = judge.Finish();
  SCOPED_TRACE(strict.ToString());
  EXPECT_TRUE(strict.joint.Passes());
  EXPECT_TRUE(strict.rest.Passes());
  int64_t accepted = 0;
  for (const Reply& reply : Ask(Texts())) accepted += reply.record().accepted_tokens();
  EXPECT_GT(accepted, strict.accepted * 11 / 10);
}

TEST(LenientTest, AtTemperatureZeroEveryTokenIsNearTheLargest) {
  TextsOptions texts = Texts();
  texts.requests = 25;
  texts.samples = 1;
  texts.sampling.temperature = 0;
  const TargetDistribution p = TableDistribution(kPair, {}, texts.prompt.size());
  int below = 0;
  // Greedy texts of all beginnings.
  InProcessCluster cluster(TableOptions(kPair));
  std::vector<v1::GenerateRequest> requests;
  for (uint32_t i = 0; i < kPair.vocabulary * kPair.vocabulary; ++i) {
    texts.prompt = {i / kPair.vocabulary, i % kPair.vocabulary};
    for (const char* drafter : {"model", "prompt-lookup", "random"}) {
      texts.drafter = drafter;
      requests.push_back(TextRequest(texts, i));
    }
  }
  const std::vector<Reply> replies = SendAll(cluster.channel(), requests, 16);
  for (size_t i = 0; i < replies.size(); ++i) {
    ASSERT_TRUE(replies[i].status.ok()) << replies[i].status;
    EXPECT_FALSE(replies[i].record().exact());
    std::vector<uint32_t> tokens(requests[i].ids().ids().begin(), requests[i].ids().ids().end());
    for (uint32_t token : replies[i].ids) {
      const sampling::Distribution row = p(tokens);
      const double largest = *std::max_element(row.probabilities.begin(), row.probabilities.end());
      EXPECT_GE(row(token), kLeniency * largest * (1 - 1e-12)) << token;
      if (row(token) < largest) ++below;
      tokens.push_back(token);
    }
  }
  EXPECT_GT(below, 5);  // it was lenient
}

}  // namespace
}  // namespace tandem::testing
