#include "common/tokenizer/content_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/tokenizer/tokenizer.h"
#include "tests/common/tokenizer/test_tokenizers.h"

namespace tandem::tokenizer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

nlohmann::json DemoJson() {
  return nlohmann::json::parse(ReadAll(DemoDirectory() + "/tokenizer.json"));
}

TEST(ContentId, KnownAnswer) {
  // Made once with Python's hashlib; a change of the id's making would part old and new services.
  const ContentId id = MakeContentId({{TokenKind::kSpecial, "<s>"}, {}, {TokenKind::kNormal, "a"}});
  EXPECT_EQ(id.id, "sha256:f36ba72770792ef2d26efbb47b5bfe9335fa1404724f3ab414b296e75ec64109");
  EXPECT_THAT(id.hashes, ::testing::ElementsAre(0xBE9FAD80u, 0, 0xA64E25E3u));
}

TEST(ContentId, SaysNothingOfTheLayoutOfTheFile) {
  const auto demo = LoadDemo();
  EXPECT_THAT(demo->content_id(), MatchesRegex("sha256:[0-9a-f]+"));
  EXPECT_EQ(demo->content_id().size(), 7u + 64u);
  // nlohmann::json sorts keys, and dump() writes one line.
  EXPECT_EQ(MakeTokenizer(DemoJson())->content_id(), demo->content_id());
  EXPECT_EQ(Tokenizer::FromJson(DemoJson().dump(4))->get()->content_id(), demo->content_id());
}

TEST(ContentId, NamesTheFirstOfTwoSwappedTokens) {
  const auto demo = LoadDemo();
  nlohmann::json json = DemoJson();
  nlohmann::json& vocab = json["model"]["vocab"];
  const uint32_t the = vocab["Ġthe"], and_id = vocab["Ġand"];
  std::swap(vocab["Ġthe"], vocab["Ġand"]);
  const auto swapped = MakeTokenizer(json);
  EXPECT_NE(swapped->content_id(), demo->content_id());
  const auto difference = FirstDifference(demo->token_hashes(), swapped->token_hashes());
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->token, std::min(the, and_id));
  const std::string name = the < and_id ? "\" the\"" : "\" and\"";
  EXPECT_THAT(Describe(*difference, *demo), HasSubstr(name + " here, another one there"));
  EXPECT_TRUE(CompareTokenizers("--a", *demo, "--b", *LoadDemo()).ok());
  const absl::Status differ = CompareTokenizers("--a", *demo, "--b", *swapped);
  EXPECT_TRUE(absl::IsFailedPrecondition(differ));
  EXPECT_THAT(std::string(differ.message()),
              AllOf(HasSubstr("--a and --b have different tokenizers"), HasSubstr(name)));
}

TEST(ContentId, ATokenThatIsSpecialIsAnother) {
  nlohmann::json json = ByteFallbackJson();
  const auto special = MakeTokenizer(json);
  json["added_tokens"][2]["special"] = false;
  const auto plain = MakeTokenizer(json);
  EXPECT_NE(special->content_id(), plain->content_id());
  const auto difference = FirstDifference(special->token_hashes(), plain->token_hashes());
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->token, 2u);
  EXPECT_THAT(Describe(*difference, *special), HasSubstr("special token \"</s>\""));
}

TEST(ContentId, OneMoreTokenIsADifferenceAtTheEnd) {
  nlohmann::json json = ByteFallbackJson();
  const auto shorter = MakeTokenizer(json);
  json["model"]["vocab"]["longer"] = json["model"]["vocab"].size();
  const auto longer = MakeTokenizer(json);
  EXPECT_NE(shorter->content_id(), longer->content_id());
  const auto difference = FirstDifference(shorter->token_hashes(), longer->token_hashes());
  ASSERT_TRUE(difference.has_value());
  EXPECT_EQ(difference->token, shorter->vocabulary_size());
  EXPECT_THAT(Describe(*difference, *shorter), HasSubstr("not a token here, another one there"));
  EXPECT_THAT(Describe(*FirstDifference(longer->token_hashes(), shorter->token_hashes()), *longer),
              HasSubstr("\"longer\" here, not a token there"));
}

TEST(ContentId, PartsOfTheVocabularyCompareToo) {
  const auto demo = LoadDemo();
  const auto all = demo->token_hashes();
  std::vector<uint32_t> theirs(all.begin() + 1000, all.begin() + 2000);
  EXPECT_FALSE(FirstDifference(all.subspan(1000, 1000), theirs, 1000).has_value());
  theirs[7] ^= 1;
  EXPECT_EQ(FirstDifference(all.subspan(1000, 1000), theirs, 1000)->token, 1007u);
  EXPECT_FALSE(FirstDifference({}, {}).has_value());
}

}  // namespace
}  // namespace tandem::tokenizer
