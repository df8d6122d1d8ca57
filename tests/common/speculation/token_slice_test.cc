#include "common/speculation/token_slice.h"

#include <utility>

#include "gtest/gtest.h"

namespace tandem::speculation {
namespace {

TEST(TokenSlice, APartCopiesNothingAndKeepsItsText) {
  auto text = std::make_shared<const std::vector<uint32_t>>(std::vector<uint32_t>{5, 6, 7, 8});
  const uint32_t* second = text->data() + 1;
  TokenSlice part(text, 1, 2);
  text.reset();
  const TokenSlice copy = part;
  part = TokenSlice();
  EXPECT_TRUE(copy.shared());
  EXPECT_EQ(copy.data(), second);
  EXPECT_EQ(copy, (std::vector<uint32_t>{6, 7}));
  EXPECT_TRUE(part.empty());
  EXPECT_FALSE(part.shared());
}

TEST(TokenSlice, TokensOfItsOwnGoWithIt) {
  for (size_t size : {0, 1, 8, 9, 100}) {
    std::vector<uint32_t> tokens;
    for (size_t i = 0; i < size; ++i) tokens.push_back(static_cast<uint32_t>(i * i));
    TokenSlice slice(tokens);
    EXPECT_FALSE(slice.shared());
    const TokenSlice copy = slice;
    const TokenSlice moved = std::move(slice);
    for (const TokenSlice& each : {copy, moved}) {
      ASSERT_EQ(each.size(), size);
      EXPECT_EQ(each, tokens);
      for (size_t i = 0; i < size; ++i) EXPECT_EQ(each[i], tokens[i]);
    }
  }
}

TEST(TokenSlice, EqualIsWhatHoldsTheSameTokens) {
  const auto text = std::make_shared<const std::vector<uint32_t>>(std::vector<uint32_t>{1, 2, 3});
  EXPECT_EQ(TokenSlice(text, 0, 3), (TokenSlice{1, 2, 3}));
  EXPECT_EQ(TokenSlice(text, 3, 0), TokenSlice());
  EXPECT_NE(TokenSlice(text, 0, 2), (TokenSlice{1, 3}));
  EXPECT_NE(TokenSlice(text, 0, 2), TokenSlice(text, 0, 3));
}

}  // namespace
}  // namespace tandem::speculation
