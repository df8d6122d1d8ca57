#include "common/sampling/token_history.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"
// Needs gtest before it.
#include "rapidcheck/gtest.h"

namespace tandem::sampling::token_history_test {
namespace {

void ExpectSame(const TokenHistory& history, const TokenHistory& other) {
  RC_ASSERT(history.tokens() == other.tokens());
  RC_ASSERT(history.output_tokens() == other.output_tokens());
  RC_ASSERT(history.counts().size() == other.counts().size());
  for (const auto& [token, counts] : other.counts()) {
    const auto it = history.counts().find(token);
    RC_ASSERT(it != history.counts().end());
    RC_ASSERT(it->second.all == counts.all);
    RC_ASSERT(it->second.output == counts.output);
  }
}

// Counted by looking at every token.
void ExpectCounted(const TokenHistory& history) {
  size_t all = 0, output = 0;
  for (const auto& [token, counts] : history.counts()) {
    uint32_t seen = 0, seen_in_output = 0;
    for (size_t i = 0; i < history.size(); ++i) {
      if (history.tokens()[i] != token) continue;
      ++seen;
      if (i >= history.prompt_tokens()) ++seen_in_output;
    }
    RC_ASSERT(counts.all > 0u);
    RC_ASSERT(counts.all == seen);
    RC_ASSERT(counts.output == seen_in_output);
    all += counts.all;
    output += counts.output;
  }
  RC_ASSERT(all == history.size());
  RC_ASSERT(output == history.output_tokens());
}

// Whatever was appended and taken back, what is left is as if nothing else had ever been there.
RC_GTEST_PROP(TokenHistoryTest, AnySequenceEqualsRebuilding, ()) {
  const auto prompt = *rc::gen::inRange<uint32_t>(0, 12);
  const auto steps = *rc::gen::container<std::vector<std::pair<bool, std::vector<uint32_t>>>>(
      rc::gen::pair(rc::gen::arbitrary<bool>(),
                    rc::gen::container<std::vector<uint32_t>>(rc::gen::inRange<uint32_t>(0, 6))));
  TokenHistory history(prompt);
  std::vector<uint32_t> tokens;
  for (const auto& [takes_back, values] : steps) {
    if (takes_back && !values.empty()) {
      const size_t size = tokens.size() * values[0] / 5;  // 0 to all of them
      tokens.resize(size);
      history.Truncate(size);
    } else {
      tokens.insert(tokens.end(), values.begin(), values.end());
      history.Append(values);
    }
    TokenHistory rebuilt(prompt);
    for (uint32_t token : tokens) rebuilt.Append(token);
    ExpectSame(history, rebuilt);
    ExpectCounted(history);
  }
}

TEST(TokenHistoryTest, PromptAndOutput) {
  TokenHistory history(2);
  EXPECT_EQ(history.output_tokens(), 0u);
  history.Append(7);
  EXPECT_EQ(history.output_tokens(), 0u);  // the prompt is not complete
  history.Append(std::vector<uint32_t>{7, 7, 9});
  EXPECT_EQ(history.output_tokens(), 2u);
  EXPECT_EQ(history.counts().at(7).all, 3u);
  EXPECT_EQ(history.counts().at(7).output, 1u);
  history.Truncate(2);
  EXPECT_EQ(history.counts().at(7).all, 2u);
  EXPECT_EQ(history.counts().at(7).output, 0u);
  EXPECT_FALSE(history.counts().contains(9));
  history.Truncate(0);
  EXPECT_TRUE(history.counts().empty());
}

TEST(TokenHistoryDeathTest, CannotTakeBackWhatIsNotThere) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  TokenHistory history;
  history.Append(1);
  EXPECT_DEATH(history.Truncate(2), "2 of 1");
}

}  // namespace
}  // namespace tandem::sampling::token_history_test
