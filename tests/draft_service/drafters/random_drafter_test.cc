#include "tests/support/random_drafter.h"

#include <gtest/gtest.h>

#include "common/base/check.h"
#include "tests/support/chi_square.h"

namespace tandem::testing {
namespace {

using speculation::CandidateTree;
using speculation::Proposal;
using speculation::SequenceSettings;

CandidateTree ProposeWith(uint32_t vocabulary_size, const SequenceSettings& sequence) {
  auto drafter =
      RandomDrafterFactory({"random", vocabulary_size}).make(sequence, Proposal::kDefault);
  TANDEM_CHECK_OK(drafter);
  TANDEM_CHECK_OK((*drafter)->Accept(0, std::vector<uint32_t>{1, 2, 3}));
  auto block = (*drafter)->Propose(4);
  TANDEM_CHECK_OK(block);
  return *std::move(block);
}

TEST(RandomDrafter, IsUniformAndSaysSo) {
  std::vector<int64_t> counts(6);
  SequenceSettings sequence;
  sequence.rule = acceptance::Rule::kSpeculative;
  for (sequence.seed = 0; sequence.seed < 3000; ++sequence.seed) {
    CandidateTree block = ProposeWith(6, sequence);
    ASSERT_EQ(block.tokens.size(), 4u);
    ASSERT_EQ(block.q.size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      ++counts[block.tokens[i]];
      ASSERT_TRUE(sampling::ValidateFor(block.q[i], block.tokens[i], 6).ok());
      ASSERT_DOUBLE_EQ(block.q[i](block.tokens[i]), 1.0 / 6);
    }
  }
  ChiSquare fit = GoodnessOfFit(std::vector<double>(6, 1.0 / 6), counts);
  EXPECT_TRUE(fit.Passes()) << fit.ToString();
}

TEST(RandomDrafter, LargeVocabularyAndGreedyAreOneHot) {
  SequenceSettings sequence;
  sequence.rule = acceptance::Rule::kSpeculative;
  sequence.seed = 5;
  CandidateTree block = ProposeWith(1000, sequence);
  EXPECT_TRUE(block.q.empty());
  for (uint32_t token : block.tokens) EXPECT_LT(token, 1000u);
  EXPECT_EQ(block.tokens, ProposeWith(1000, sequence).tokens);
  sequence.sampling.temperature = 0;
  EXPECT_TRUE(ProposeWith(6, sequence).q.empty());
}

}  // namespace
}  // namespace tandem::testing
