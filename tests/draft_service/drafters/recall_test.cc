#include "draft_service/drafters/recall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/random/random.h"
#include "draft_service/ngrams/recalled_texts.h"
#include "tests/draft_service/drafters/ngram_drafters.h"

namespace tandem::draft_service::recall_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Tokens = std::vector<uint32_t>;

Tokens After(const RecalledTexts& texts, absl::string_view scope, const Tokens& text,
             std::optional<RecalledTexts::Noise> without = std::nullopt) {
  const absl::Span<const uint32_t> after = texts.After(scope, text, without);
  return {after.begin(), after.end()};
}

TEST(RecalledTexts, TheLongestMatchThenTheLatest) {
  RecalledTexts texts(1000);
  EXPECT_THAT(After(texts, "a", {1, 2, 3}), IsEmpty());
  texts.Add("a", {9, 1, 2, 3, 4, 5}, std::nullopt);
  EXPECT_THAT(After(texts, "a", {7, 1, 2, 3}), ElementsAre(4, 5));
  EXPECT_THAT(After(texts, "a", {3, 4, 5}), IsEmpty()) << "nothing follows";
  EXPECT_THAT(After(texts, "a", {2, 3}), IsEmpty()) << "too short to be a match";
  texts.Add("a", {8, 1, 2, 3, 6}, std::nullopt);
  EXPECT_THAT(After(texts, "a", {7, 1, 2, 3}), ElementsAre(6));
  texts.Add("a", {4, 5, 6, 1, 2, 3, 7}, std::nullopt);
  texts.Add("a", {0, 1, 2, 3, 8}, std::nullopt);
  EXPECT_THAT(After(texts, "a", {4, 5, 6, 1, 2, 3}), ElementsAre(7));
}

TEST(RecalledTexts, ScopesDoNotMeet) {
  RecalledTexts texts(1000);
  texts.Add("a", {1, 2, 3, 4}, std::nullopt);
  for (const char* other : {"", "b", "A", "a "}) {
    EXPECT_THAT(After(texts, other, {1, 2, 3}), IsEmpty()) << other;
  }
  texts.Add("b", {1, 2, 3, 5}, std::nullopt);
  EXPECT_THAT(After(texts, "a", {1, 2, 3}), ElementsAre(4));
  EXPECT_THAT(After(texts, "b", {1, 2, 3}), ElementsAre(5));
}

TEST(RecalledTexts, NotOfTheSameNoise) {
  RecalledTexts texts(1000);
  texts.Add("a", {1, 2, 3, 4}, RecalledTexts::Noise{5, 0});
  EXPECT_THAT(After(texts, "a", {1, 2, 3}, RecalledTexts::Noise{5, 0}), IsEmpty());
  EXPECT_THAT(After(texts, "a", {1, 2, 3}, RecalledTexts::Noise{5, 1}), ElementsAre(4));
  EXPECT_THAT(After(texts, "a", {1, 2, 3}, RecalledTexts::Noise{6, 0}), ElementsAre(4));
  EXPECT_THAT(After(texts, "a", {1, 2, 3}), ElementsAre(4));
}

TEST(RecalledTexts, HoldsNoMoreThanItMay) {
  std::mt19937 random(3);
  RecalledTexts texts(100);
  for (int i = 0; i < 500; ++i) {
    Tokens text(random() % 40);
    for (uint32_t& token : text) token = static_cast<uint32_t>(random() % 5);
    texts.Add(std::string(1, static_cast<char>('a' + random() % 3)), text, std::nullopt);
    ASSERT_LE(texts.tokens(), 100u);
    ASSERT_LE(texts.index_entries(), RecalledTexts::kMatches.size() * texts.tokens());
    if (text.size() > 3) {
      ASSERT_GT(texts.tokens(), 0u);
    }
  }
  // Of a text that has no room at all the end stays, and everything else has gone.
  Tokens text(1000);
  std::iota(text.begin(), text.end(), 10U);
  texts.Add("a", text, std::nullopt);
  EXPECT_EQ(texts.tokens(), 100u);
  EXPECT_THAT(After(texts, "a", {1003, 1004, 1005}), ElementsAre(1006, 1007, 1008, 1009));
  EXPECT_THAT(After(texts, "a", {100, 101, 102}), IsEmpty());
}

speculation::SequenceSettings Settings(const std::string& scope, uint32_t prompt_tokens,
                                       acceptance::Rule rule = acceptance::Rule::kGreedy,
                                       uint64_t seed = 0) {
  speculation::SequenceSettings settings;
  settings.cache_scope = scope;
  settings.prompt_tokens = prompt_tokens;
  settings.rule = rule;
  settings.seed = seed;
  settings.sampling.temperature = rule == acceptance::Rule::kGreedy ? 0 : 1;
  return settings;
}

// A sequence of these settings and this text proposes this.
Tokens Sequence(const DrafterFactory& factory, const speculation::SequenceSettings& settings,
                const Tokens& text, uint32_t max = 4) {
  auto drafter = *factory.make(settings, Proposal::kDefault);
  TANDEM_CHECK_OK(drafter->Accept(0, text));
  return drafter->Propose(max)->tokens;
}

TEST(Recall, RemembersOutputsWhenTheyEnd) {
  const DrafterFactory factory = RecallFactory({.max_tokens = 100});
  EXPECT_FALSE(factory.samples);
  {
    auto first = *factory.make(Settings("a", 4), Proposal::kDefault);
    ASSERT_TRUE(first->Accept(0, {20, 1, 2, 3, 4, 5}).ok());
    EXPECT_THAT(Sequence(factory, Settings("a", 3), {1, 2, 3}), IsEmpty()) << "it goes on";
    ASSERT_TRUE(first->Accept(5, {6, 7}).ok()) << "taken back";
  }
  EXPECT_THAT(Sequence(factory, Settings("a", 3), {1, 2, 3}), ElementsAre(4, 6, 7));
  EXPECT_THAT(Sequence(factory, Settings("a", 3), {1, 2, 3}, 2), ElementsAre(4, 6));
  EXPECT_THAT(Sequence(factory, Settings("b", 3), {1, 2, 3}), IsEmpty());
  EXPECT_THAT(Sequence(factory, Settings("", 3), {1, 2, 3}), IsEmpty());
  // Else it looks in the text itself.
  EXPECT_THAT(Sequence(factory, Settings("b", 3), {8, 9, 8}), ElementsAre(9, 8));
}

TEST(Recall, WithoutAScopeNothingIsRemembered) {
  const DrafterFactory factory = RecallFactory({.max_tokens = 100});
  Sequence(factory, Settings("", 1), {1, 2, 3, 4});
  EXPECT_THAT(Sequence(factory, Settings("", 3), {1, 2, 3}), IsEmpty());
  Sequence(factory, Settings("a", 4), {1, 2, 3, 4});
  EXPECT_THAT(Sequence(factory, Settings("a", 3), {1, 2, 3}), IsEmpty()) << "a prompt alone";
}

// Under rules that judge with numbers of the seed, an answer to the same seed does not count;
// whether it was made under a rule that tells the seed itself to the draft, or a derived one.
TEST(Recall, NotOfTheSameSeed) {
  using enum acceptance::Rule;
  const DrafterFactory factory = RecallFactory({.max_tokens = 100});
  Sequence(factory, Settings("a", 1, kSpeculative, 5), {1, 2, 3, 4});
  EXPECT_THAT(Sequence(factory, Settings("a", 3, kSpeculative, 5), {1, 2, 3}), IsEmpty());
  EXPECT_THAT(Sequence(factory, Settings("a", 3, kBlock, 5), {1, 2, 3}), IsEmpty());
  EXPECT_THAT(Sequence(factory, Settings("a", 3, kBlock, 6), {1, 2, 3}), ElementsAre(4));
  EXPECT_THAT(Sequence(factory, Settings("a", 3, kCoupled, 5), {1, 2, 3}), ElementsAre(4));
  EXPECT_THAT(Sequence(factory, Settings("a", 3), {1, 2, 3}), ElementsAre(4));
  Sequence(factory, Settings("a", 1, kCoupled, 7), {2, 3, 4, 5});
  const uint64_t derived = random::DeriveDraftSeed(7);
  EXPECT_THAT(Sequence(factory, Settings("a", 3, kSpeculative, derived), {2, 3, 4}), IsEmpty());
  EXPECT_THAT(Sequence(factory, Settings("a", 3, kSpeculative, 7), {2, 3, 4}), ElementsAre(5));
}

}  // namespace
}  // namespace tandem::draft_service::recall_test
