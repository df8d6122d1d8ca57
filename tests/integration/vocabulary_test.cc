// Vocabularies that differ: a tokenizer with more ids than the model's embedding, and one with ids
// that have no text.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "common/base/check.h"
#include "common/tokenizer/tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/integration/cluster.h"
#include "tests/integration/requests.h"
#include "tests/support/table_model.h"

namespace tandem::testing::vocabulary_test {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kModel = 6;  // ids that the model has

ClusterOptions Options(std::shared_ptr<const tokenizer::Tokenizer> tokenizer) {
  ClusterOptions options;
  options.target_model =
      std::make_unique<TableModel>(TableModelOptions{.vocabulary_size = kModel, .seed = 3});
  options.tokenizer = std::move(tokenizer);
  options.without_sockets = true;
  return options;
}

// As LettersTokenizer(kModel), but the id 2 is not a token.
constexpr uint32_t kHole = 2;
std::shared_ptr<const tokenizer::Tokenizer> TokenizerWithHole() {
  const std::string whole = LettersTokenizerJson(kModel);
  const std::string json = absl::StrReplaceAll(whole, {{"\"c\":2,", ""}});
  TANDEM_CHECK(json != whole);
  auto tokenizer = tokenizer::Tokenizer::FromJson(json);
  TANDEM_CHECK_OK(tokenizer);
  TANDEM_CHECK((*tokenizer)->vocabulary_size() == kModel && !(*tokenizer)->IsToken(kHole));
  return *std::move(tokenizer);
}

struct Case {
  std::function<void(v1::GenerateRequest&)> change;
  std::string says;
};

TEST(Vocabulary, IdsThatTheModelDoesNotHaveAreRefusedByField) {
  InProcessCluster cluster(Options(LettersTokenizer(kModel + 2)));
  using R = v1::GenerateRequest;
  const std::vector<Case> cases = {
      {[](R& r) { r.mutable_ids()->add_ids(7); }, "ids.ids[1] is 7; it must be below"},
      {[](R& r) { r.set_text("abg"); }, "text's ids[2] is 6"},
      {[](R& r) { r.add_output_prefix_ids(6); }, "output_prefix_ids[0] is 6"},
      {[](R& r) { r.mutable_stop()->add_token_ids(7); }, "stop.token_ids[0] is 7"},
      {[](R& r) { r.mutable_sampling()->add_allowed_token_ids(6); },
       "sampling.allowed_token_ids[0] is 6"},
  };
  for (const Case& one : cases) {
    v1::GenerateRequest request = GreedyRequest({0}, 4, 0);
    one.change(request);
    const Reply reply = Send(cluster.channel(), request);
    EXPECT_EQ(reply.status.code(), absl::StatusCode::kInvalidArgument) << reply.status;
    EXPECT_THAT(std::string(reply.status.message()), HasSubstr(one.says));
  }
  const Reply good = Send(cluster.channel(), GreedyRequest({0, kModel - 1}, 4, 0));
  EXPECT_TRUE(good.status.ok()) << good.status;
}

TEST(Vocabulary, AnIdWithoutATextIsDrawnAndAddsNone) {
  InProcessCluster with_hole(Options(TokenizerWithHole()));
  v1::GenerateRequest request = GreedyRequest({0}, 8, 0);
  request.mutable_sampling()->add_allowed_token_ids(kHole);
  const Reply holes = Send(with_hole.channel(), request);
  EXPECT_TRUE(holes.status.ok()) << holes.status;
  EXPECT_EQ(holes.ids, std::vector<uint32_t>(8, kHole));
  EXPECT_EQ(holes.text, "");

  // It has the probability that the model gives it: ids and log probabilities are those of a
  // tokenizer without a hole.
  InProcessCluster without(Options(LettersTokenizer(kModel)));
  request = v1::GenerateRequest();
  request.mutable_ids()->add_ids(0);
  request.set_max_tokens(100);
  request.set_seed(11);
  request.mutable_logprobs()->set_top(kModel);
  const Reply some = Send(with_hole.channel(), request);
  const Reply all = Send(without.channel(), request);
  ASSERT_TRUE(some.status.ok() && all.status.ok()) << some.status << all.status;
  EXPECT_EQ(some.ids, all.ids);
  EXPECT_EQ(some.samples[0].logprobs, all.samples[0].logprobs);
  std::string text;
  for (const char letter : all.text) {
    if (letter != 'a' + kHole) text += letter;
  }
  EXPECT_LT(text.size(), all.text.size()) << "none was drawn";
  EXPECT_EQ(some.text, text);
}

}  // namespace
}  // namespace tandem::testing::vocabulary_test
