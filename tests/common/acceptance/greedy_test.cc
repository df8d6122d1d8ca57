#include "common/acceptance/greedy.h"

#include <vector>

#include "gtest/gtest.h"

namespace tandem::acceptance {
namespace {

std::vector<uint32_t> Commit(const std::vector<uint32_t>& argmax,
                             const std::vector<uint32_t>& candidates, double u) {
  std::vector<Entry> entries = JudgeGreedy(argmax, candidates);
  EXPECT_TRUE(
      ValidateEntries(Rule::kGreedy, entries, static_cast<int>(candidates.size()), 10).ok());
  Decision decision = Decide(Rule::kGreedy, entries, std::vector<double>(candidates.size(), u));
  EXPECT_EQ(decision.rejected, decision.accepted < candidates.size());
  std::vector<uint32_t> tokens(candidates.begin(), candidates.begin() + decision.accepted);
  tokens.push_back(decision.next_token);
  return tokens;
}

TEST(GreedyTest, CommitsTheTargetsOwnTokensWhateverTheUniforms) {
  for (double u : {0.0, 0.5, 0.99999999}) {
    EXPECT_EQ(Commit({1, 2, 3}, {1, 2}, u), (std::vector<uint32_t>{1, 2, 3}));
    EXPECT_EQ(Commit({1, 2, 3}, {1, 7}, u), (std::vector<uint32_t>{1, 2}));
    EXPECT_EQ(Commit({1, 2, 3}, {7, 2}, u), (std::vector<uint32_t>{1}));
    EXPECT_EQ(Commit({1}, {}, u), (std::vector<uint32_t>{1}));
    EXPECT_EQ(Commit({1, 2}, {0xffffffff}, u), (std::vector<uint32_t>{1}));
  }
}

TEST(GreedyTest, EntriesSayWhereTheBlockCanEnd) {
  std::vector<Entry> entries =
      JudgeGreedy(std::vector<uint32_t>{1, 2, 3}, std::vector<uint32_t>{1, 7});
  EXPECT_FALSE(entries[0].next_token.has_value());
  EXPECT_EQ(entries[1].accept_probability, 1);
  EXPECT_EQ(entries[1].next_token, 2u);
  EXPECT_EQ(entries[2].accept_probability, 0);
  EXPECT_EQ(entries[2].next_token, 3u);
}

}  // namespace
}  // namespace tandem::acceptance
