#include "draft_service/prompt_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "common/base/check.h"

namespace tandem::draft_service {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::unique_ptr<Drafter> Make() {
  auto drafter = PromptLookupFactory().make({}, Proposal::kDefault);
  TANDEM_CHECK_OK(drafter);
  return *std::move(drafter);
}

std::vector<uint32_t> ProposeAfter(const std::vector<uint32_t>& text, uint32_t max) {
  auto drafter = Make();
  TANDEM_CHECK_OK(drafter->Accept(0, text));
  auto block = drafter->Propose(max);
  TANDEM_CHECK_OK(block);
  EXPECT_THAT(block->q, IsEmpty());
  return block->tokens;
}

TEST(PromptLookup, Examples) {
  EXPECT_THAT(ProposeAfter({}, 4), IsEmpty());
  EXPECT_THAT(ProposeAfter({1}, 4), IsEmpty());
  EXPECT_THAT(ProposeAfter({1, 2, 3}, 4), IsEmpty());
  EXPECT_THAT(ProposeAfter({1, 2, 1}, 4), ElementsAre(2, 1));
  EXPECT_THAT(ProposeAfter({1, 2, 3, 4, 1, 2, 3}, 2), ElementsAre(4, 1));
  // The longest match wins over a later, shorter one.
  EXPECT_THAT(ProposeAfter({1, 2, 3, 7, 3, 8, 1, 2, 3}, 1), ElementsAre(7));
  // Among equally long ones the latest.
  EXPECT_THAT(ProposeAfter({5, 1, 5, 2, 5}, 1), ElementsAre(2));
  // A match that overlaps the end.
  EXPECT_THAT(ProposeAfter({9, 9, 9, 9}, 4), ElementsAre(9));
}

// The plain search that the index stands for.
std::vector<uint32_t> Search(const std::vector<uint32_t>& text, uint32_t max) {
  for (size_t n = 3; n >= 1; --n) {
    if (text.size() <= n) continue;
    for (size_t end = text.size() - 1; end >= n; --end) {
      if (!std::equal(text.end() - static_cast<ptrdiff_t>(n), text.end(),
                      text.begin() + static_cast<ptrdiff_t>(end - n))) {
        continue;
      }
      const size_t last = std::min<size_t>(text.size(), end + max);
      return {text.begin() + static_cast<ptrdiff_t>(end),
              text.begin() + static_cast<ptrdiff_t>(last)};
    }
  }
  return {};
}

TEST(PromptLookup, IndexEqualsSearchThroughAppendsAndRollBacks) {
  std::mt19937 random(23);
  for (int trial = 0; trial < 50; ++trial) {
    auto drafter = Make();
    std::vector<uint32_t> text;
    for (int round = 0; round < 60; ++round) {
      const uint32_t keep =
          static_cast<uint32_t>(random() % 3 == 0 ? random() % (text.size() + 1) : text.size());
      std::vector<uint32_t> tokens(random() % 6);
      for (uint32_t& token : tokens) token = static_cast<uint32_t>(random() % 4);
      text.resize(keep);
      text.insert(text.end(), tokens.begin(), tokens.end());
      ASSERT_TRUE(drafter->Accept(keep, tokens).ok());
      const uint32_t max = 1 + static_cast<uint32_t>(random() % 6);
      ASSERT_EQ(drafter->Propose(max)->tokens, Search(text, max));
    }
  }
}

}  // namespace
}  // namespace tandem::draft_service
