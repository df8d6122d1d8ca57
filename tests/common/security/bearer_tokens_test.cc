#include "common/security/bearer_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/strings/match.h"
#include "tests/common/security/authority.h"
#include "tests/support/log_lines.h"

namespace tandem::security {
namespace {

using ::testing::HasSubstr;

constexpr char kFirst[] = "first-0123456789abcdef";
constexpr char kSecond[] = "second-0123456789abcdef";

class BearerTokensTest : public ::testing::Test {
 protected:
  std::unique_ptr<BearerTokens> Load(const std::string& text) {
    auto tokens = BearerTokens::Load(folder_.Put("tokens", text));
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    return *std::move(tokens);
  }
  std::string Problem(const std::string& text) {
    const auto tokens = BearerTokens::Load(folder_.Put("tokens", text));
    EXPECT_EQ(tokens.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(tokens.status().message());
  }
  static absl::Status Check(BearerTokens& tokens, const std::string& value) {
    return tokens.Check({value});
  }

  const tandem::testing::LogRecorder log_;
  const ScratchFolder folder_;
};

TEST_F(BearerTokensTest, EachTokenOfTheFileIsGood) {
  const auto tokens = Load(std::string("# who\n\n") + kFirst + "\n  " + kSecond + "\r\n");
  EXPECT_EQ(tokens->size(), 2u);
  EXPECT_TRUE(Check(*tokens, std::string("Bearer ") + kFirst).ok());
  EXPECT_TRUE(Check(*tokens, std::string("bearer  ") + kSecond).ok());
}

TEST_F(BearerTokensTest, AnythingElseIsNotAndIsNotRepeated) {
  const auto tokens = Load(std::string("# comment-0123456789\n") + kFirst + "\n");
  const std::string good = std::string("Bearer ") + kFirst;
  for (const std::string& value :
       {std::string(), std::string("Bearer"), std::string("Bearer "), good + "x",
        good.substr(0, good.size() - 1), std::string(kFirst), std::string("Basic ") + kFirst,
        std::string("Bearer # comment-0123456789"), std::string("Bearer FIRST-0123456789ABCDEF")}) {
    const absl::Status status = Check(*tokens, value);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << value;
    EXPECT_FALSE(absl::StrContains(status.message(), "0123456789")) << status;
  }
  EXPECT_THAT(std::string(tokens->Check({}).message()), HasSubstr("no token"));
  EXPECT_THAT(std::string(tokens->Check({good, good}).message()), HasSubstr("more than once"));
  EXPECT_TRUE(Check(*tokens, good).ok());  // the negative control
}

TEST_F(BearerTokensTest, AReplacedFileIsInForceAtOnce) {
  const auto tokens = Load(kFirst);
  folder_.Put("tokens", std::string(kFirst) + "\n" + kSecond);
  EXPECT_TRUE(Check(*tokens, std::string("Bearer ") + kSecond).ok());
  EXPECT_TRUE(Check(*tokens, std::string("Bearer ") + kFirst).ok());
  folder_.Put("tokens", kSecond);
  EXPECT_FALSE(Check(*tokens, std::string("Bearer ") + kFirst).ok());
  EXPECT_EQ(log_.Of("tokens_replaced").size(), 2u);
}

TEST_F(BearerTokensTest, ABrokenReplacementIsSaidOnceAndTheOldOnesStay) {
  const auto tokens = Load(kFirst);
  folder_.Put("tokens", "short");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Check(*tokens, std::string("Bearer ") + kFirst).ok());
  ASSERT_EQ(log_.Of("tokens_kept").size(), 1u);
  EXPECT_FALSE(absl::StrContains(log_.Of("tokens_kept")[0].text, "short"));
}

TEST_F(BearerTokensTest, WhatIsWrongIsNamedWithoutTheToken) {
  EXPECT_THAT(Problem("# a\n0123456789abcde\n"),
              HasSubstr("tokens:2: a token of 15 characters; must be 16 to 4096"));
  EXPECT_THAT(Problem("0123456789 abcdefgh"), HasSubstr("tokens:1: a token must be visible ASCII"));
  EXPECT_THAT(Problem("# nothing\n"), HasSubstr("has no token"));
  EXPECT_THAT(Problem(""), HasSubstr("is empty"));
  EXPECT_EQ(BearerTokens::Load(folder_.Path("none")).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(BearerTokensTest, ReplacedUnderLoad) {
  const auto tokens = Load(kFirst);
  std::atomic<bool> over = false;
  std::atomic<int> refused = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      while (!over) refused += Check(*tokens, std::string("Bearer ") + kFirst).ok() ? 0 : 1;
    });
  }
  for (int i = 0; i < 100; ++i) {
    folder_.Put("tokens", (i % 2 == 0 ? std::string(kSecond) + "\n" : "") + kFirst + "\n");
  }
  over = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(refused, 0);
}

TEST_F(BearerTokensTest, AClientSendsTheFirstOfWhatTheFileHasNow) {
  const std::string path = folder_.Put("tokens", std::string("# x\n") + kFirst + "\n" + kSecond);
  const auto token = ClientToken::Load(path);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ((*token)->Authorization(), std::string("Bearer ") + kFirst);
  folder_.Put("tokens", kSecond);
  EXPECT_EQ((*token)->Authorization(), std::string("Bearer ") + kSecond);
  folder_.Put("tokens", "short");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*token)->Authorization(), std::string("Bearer ") + kSecond);
  }
  EXPECT_EQ(log_.Of("tokens_kept").size(), 1u);
  EXPECT_FALSE(ClientToken::Load(path).ok());
}

}  // namespace
}  // namespace tandem::security
