#include "draft_service/drafters/prompt_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/draft_service/drafters/ngram_drafters.h"

namespace tandem::draft_service::prompt_lookup_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<uint32_t> ProposeAfter(const std::vector<uint32_t>& text, uint32_t max) {
  return draft_service::ProposeAfter(PromptLookupFactory(), text, max);
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
  for (int trial = 0; trial < 50 && !::testing::Test::HasFailure(); ++trial) {
    ExpectItsIndexEquals(Search, PromptLookupFactory(), random);
  }
}

}  // namespace
}  // namespace tandem::draft_service::prompt_lookup_test
