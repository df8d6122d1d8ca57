// Tokenize and Detokenize: bounds before work, and the fields that are named.
#include "orchestrator/generate/token_calls.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class TokenCallsTest : public ::testing::Test {
 protected:
  TokenCallsTest() {
    facts_.context_length = 20;
    facts_.max_token_bytes = 4;
    facts_.encode = [this](const std::string& text, const TextOptions& options) {
      ++encoded_;
      std::vector<uint32_t> ids(text.begin(), text.end());
      if (options.add_special_tokens) ids.insert(ids.begin(), 1);
      return ids;
    };
    facts_.decode = [](absl::Span<const uint32_t> ids) -> absl::StatusOr<std::string> {
      if (ids.size() == 1 && ids[0] == 999) return absl::InvalidArgumentError("id 999 is no token");
      return std::string(ids.begin(), ids.end());
    };
    facts_.token_bytes = [](uint32_t id) {
      return id == 1 ? std::string("<s>") : std::string(1, static_cast<char>(id));
    };
  }

  std::string Wrong(const v1::TokenizeRequest& request) {
    const absl::Status status = Tokenize(request, facts_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  TokenFacts facts_;
  int encoded_ = 0;
};

TEST_F(TokenCallsTest, IdsAndTheirBytes) {
  v1::TokenizeRequest request;
  request.set_text("ab");
  auto reply = Tokenize(request, facts_);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(reply->token_ids(), ElementsAre(1u, 'a', 'b'));
  EXPECT_TRUE(reply->token_bytes().empty());
  EXPECT_EQ(reply->context_length(), 20u);
  request.set_add_special_tokens(false);
  request.set_token_bytes(true);
  reply = Tokenize(request, facts_);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(reply->token_bytes(), ElementsAre("a", "b"));
  request.set_text("");
  EXPECT_TRUE(Tokenize(request, facts_)->token_ids().empty());
}

TEST_F(TokenCallsTest, WhatCannotFitIsNotTokenised) {
  v1::TokenizeRequest request;
  request.set_text(std::string(81, 'x'));
  EXPECT_THAT(Wrong(request), StartsWith("text has 81 bytes"));
  facts_.context_length = 0;  // no target yet
  EXPECT_TRUE(Tokenize(request, facts_).ok());
  EXPECT_EQ(encoded_, 1);
  request.set_text(std::string((1 << 20) + 1, 'x'));
  EXPECT_THAT(Wrong(request), HasSubstr("at most 1048576"));
  EXPECT_EQ(encoded_, 1);
}

TEST_F(TokenCallsTest, ConversationsNeedATemplate) {
  v1::TokenizeRequest request;
  EXPECT_THAT(Wrong(request), StartsWith("prompt is missing"));
  request.mutable_conversation()->add_messages()->set_content("hi");
  EXPECT_THAT(Wrong(request), StartsWith("conversation: the model has no chat template"));
  facts_.encode_conversation = [](const v1::Conversation& conversation) {
    return std::vector<uint32_t>(conversation.messages_size(), 7);
  };
  EXPECT_THAT(Tokenize(request, facts_)->token_ids(), ElementsAre(7u));
  request.set_parse_special_tokens(false);
  EXPECT_THAT(Wrong(request), StartsWith("parse_special_tokens is set"));
}

TEST_F(TokenCallsTest, TextOfIdsWithinTheContext) {
  v1::DetokenizeRequest request;
  for (const char c : {'h', 'i'}) request.add_token_ids(c);
  EXPECT_EQ(Detokenize(request, facts_)->text(), "hi");
  request.mutable_token_ids()->Resize(21, 'x');
  EXPECT_THAT(std::string(Detokenize(request, facts_).status().message()),
              StartsWith("token_ids has 21 ids; at most 20"));
  request.clear_token_ids();
  request.add_token_ids(999);
  const absl::Status status = Detokenize(request, facts_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "token_ids: id 999 is no token");
}

TEST_F(TokenCallsTest, BytesOfAlternatives) {
  v1::Delta delta;
  delta.add_token_ids('a');
  delta.add_top_logprobs()->add_tokens()->set_token(1);
  AddTokenBytes(facts_.token_bytes, delta);
  EXPECT_THAT(delta.token_bytes(), ElementsAre("a"));
  EXPECT_EQ(delta.top_logprobs(0).tokens(0).token_bytes(), "<s>");
  v1::PromptLogprobs prompt;
  prompt.add_token_ids('b');
  prompt.add_top()->add_tokens()->set_token('c');
  AddTokenBytes(facts_.token_bytes, prompt);
  EXPECT_THAT(prompt.token_bytes(), ElementsAre("b"));
  EXPECT_EQ(prompt.top(0).tokens(0).token_bytes(), "c");
}

}  // namespace
}  // namespace tandem::orchestrator
