#include "common/tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/common/tokenizer/test_tokenizers.h"
#include "tests/support/allocations.h"
#include "tests/support/paths.h"

namespace tandem::tokenizer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(Tokenizer, KnownIdsOfTheDemo) {
  const auto demo = LoadDemo();
  EXPECT_EQ(demo->vocabulary_size(), 4096u);
  const auto ids = demo->Encode("Once upon a time");
  ASSERT_TRUE(ids.ok());
  std::vector<std::string> pieces;
  for (const uint32_t id : *ids) pieces.emplace_back(demo->TokenBytes(id));
  EXPECT_THAT(pieces, ElementsAre("On", "ce", " upon", " a", " time"));
  EXPECT_EQ(*demo->Decode(*ids), "Once upon a time");
  EXPECT_TRUE(demo->Encode("")->empty());
  EXPECT_EQ(*demo->Decode({}), "");
}

TEST(Tokenizer, SpecialTokensHaveNoText) {
  const auto demo = LoadDemo();
  const auto ids = demo->Encode("a<|endoftext|>b");
  ASSERT_TRUE(ids.ok());
  ASSERT_EQ(ids->size(), 3u);
  EXPECT_EQ((*ids)[1], 0u);
  EXPECT_TRUE(demo->IsSpecial(0));
  EXPECT_FALSE(demo->IsSpecial(1));
  EXPECT_EQ(demo->TokenBytes(0), "<|endoftext|>");
  EXPECT_EQ(*demo->Decode(*ids), "ab");
}

TEST(Tokenizer, NoTextHasFewerTokensThanItsBytesOverThoseOfTheLongest) {
  const auto tokenizer = LoadDemo();
  size_t longest = 0;
  for (uint32_t id = 0; id < tokenizer->vocabulary_size(); ++id) {
    longest = std::max(longest, tokenizer->TokenBytes(id).size());
    const std::string text(tokenizer->TokenBytes(id));
    const auto ids = tokenizer->Encode(text, /*add_special_tokens=*/false);
    if (!ids.ok()) continue;  // a part of a character
    EXPECT_GE(ids->size() * tokenizer->max_token_bytes(), text.size()) << text;
  }
  EXPECT_EQ(tokenizer->max_token_bytes(), longest);
}

TEST(Tokenizer, PaddingBeyondTheVocabularyIsNoToken) {
  const auto demo = LoadDemo();
  for (const uint32_t id : {4096u, 5000u, 0xFFFFFFFFu}) {
    EXPECT_FALSE(demo->IsToken(id));
    EXPECT_FALSE(demo->IsSpecial(id));
    EXPECT_EQ(demo->TokenBytes(id), "");
    EXPECT_EQ(demo->TokenHash(id), 0u);
    const auto text = demo->Decode({1, id});
    EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(text.status()), AllOf(HasSubstr(std::to_string(id)), HasSubstr("4096")));
  }
}

TEST(Tokenizer, HolesInTheVocabularyAreNoTokens) {
  nlohmann::json json = ByteFallbackJson();
  const uint32_t last = static_cast<uint32_t>(json["model"]["vocab"].size());
  json["model"]["vocab"]["far"] = last + 5;
  const auto tokenizer = MakeTokenizer(json);
  EXPECT_EQ(tokenizer->vocabulary_size(), last + 6);
  EXPECT_TRUE(tokenizer->IsToken(last - 1));
  EXPECT_FALSE(tokenizer->IsToken(last));
  EXPECT_TRUE(tokenizer->IsToken(last + 5));
  EXPECT_FALSE(tokenizer->Decode({last}).ok());
}

TEST(Tokenizer, OlderMergesOfTokensWithSpacesAreRead) {
  nlohmann::json json = ByteFallbackJson();
  const uint32_t spaced = static_cast<uint32_t>(json["model"]["vocab"].size());
  json["model"]["vocab"][" "] = spaced;
  json["model"]["vocab"]["h "] = spaced + 1;
  json["model"]["merges"].push_back("h  ");  // "h" and " "
  json["normalizer"] = nullptr;
  EXPECT_EQ(*MakeTokenizer(json)->Encode("h ", false), std::vector<uint32_t>{spaced + 1});
  json["model"]["merges"].push_back("q  ");  // no token has a q
  EXPECT_FALSE(Tokenizer::FromJson(json.dump()).ok());
}

TEST(Tokenizer, TruncationAndPaddingOfTheFileAreNotApplied) {
  nlohmann::json json = ByteFallbackJson();
  json["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  json["padding"] = {{"strategy", {{"Fixed", 32}}},
                     {"direction", "Right"},
                     {"pad_to_multiple_of", nullptr},
                     {"pad_id", 0},
                     {"pad_type_id", 0},
                     {"pad_token", "<unk>"}};
  EXPECT_EQ(*MakeTokenizer(json)->Encode("hello wo hello"),
            *MakeTokenizer(ByteFallbackJson())->Encode("hello wo hello"));
}

TEST(Tokenizer, TextThatIsNotUtf8IsRefused) {
  const auto ids = LoadDemo()->Encode("ab\xFFgh");
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(ids.status()), AllOf(HasSubstr("not UTF-8"), HasSubstr("offset 2")));
}

TEST(Tokenizer, AMissingFileIsNamed) {
  const auto tokenizer = Tokenizer::Load("/no/such/model");
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(tokenizer.status()), HasSubstr("/no/such/model/tokenizer.json"));
}

TEST(Tokenizer, OfAModelInTheHubsCacheItsSnapshotIsRead) {
  std::string directory = ::testing::TempDir() + "tokenizerXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string snapshot = directory + "/snapshots/0123";
  std::filesystem::create_directories(snapshot);
  std::ofstream(snapshot + "/tokenizer.json") << ByteFallbackJson().dump();
  const auto tokenizer = Tokenizer::Load(directory);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->content_id(), (*Tokenizer::Load(snapshot))->content_id());
}

// A directory with a tokenizer.json and, of other names, the texts that are not empty.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadBeside(const std::string& config,
                                                      const std::string& map = "") {
  std::string directory = ::testing::TempDir() + "tokenizerXXXXXX";
  EXPECT_NE(mkdtemp(directory.data()), nullptr);
  nlohmann::json json = ByteFallbackJson();
  json["added_tokens"].push_back(json["added_tokens"][0]);
  json["added_tokens"].back()["id"] = 300;
  json["added_tokens"].back()["content"] = "<|im_end|>";
  std::ofstream(directory + "/tokenizer.json") << json.dump();
  if (!config.empty()) std::ofstream(directory + "/tokenizer_config.json") << config;
  if (!map.empty()) std::ofstream(directory + "/special_tokens_map.json") << map;
  return Tokenizer::Load(directory);
}

TEST(Tokenizer, ItsFilesSayWhichTokensEndAText) {
  const std::string im_end = R"({"eos_token": "<|im_end|>"})";
  const std::string object = R"({"eos_token": {"content": "</s>", "lstrip": false}})";
  const uint32_t id = (*LoadBeside(im_end))->vocabulary_size() - 1;
  EXPECT_EQ((*LoadBeside(im_end))->TokenBytes(id), "<|im_end|>");
  EXPECT_THAT((*LoadBeside(im_end))->eos_token_ids(), ElementsAre(id));
  EXPECT_THAT((*LoadBeside(object))->eos_token_ids(), ElementsAre(2));
  EXPECT_THAT((*LoadBeside("", object))->eos_token_ids(), ElementsAre(2));
  EXPECT_THAT((*LoadBeside(im_end, object))->eos_token_ids(), ElementsAre(id, 2));
  EXPECT_THAT((*LoadBeside(object, object))->eos_token_ids(), ElementsAre(2));
  // A token that is not special.
  EXPECT_THAT((*LoadBeside(R"({"eos_token": "hello"})"))->eos_token_ids(), ElementsAre(271));
  // Not a token at all, or not said.
  for (const char* config : {R"({"eos_token": "<|unknown|>"})", R"({"eos_token": null})",
                             R"({"eos_token": ""})", "{}", ""}) {
    EXPECT_TRUE((*LoadBeside(config))->eos_token_ids().empty()) << config;
  }
  for (const char* eos : {"7", "[\"</s>\"]", "{\"content\": 2}", "true"}) {
    const auto tokenizer = LoadBeside(absl::StrCat("{\"eos_token\": ", eos, "}"));
    EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(tokenizer.status()), HasSubstr("tokenizer_config.json: eos_token is "));
  }
}

TEST(Tokenizer, WhatIsNotARegularFileIsRefused) {
  std::string directory = ::testing::TempDir() + "tokenizerXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  std::filesystem::create_symlink("/dev/zero", directory + "/tokenizer.json");
  EXPECT_THAT(Message(Tokenizer::Load(directory).status()),
              HasSubstr(directory + "/tokenizer.json: not a regular file"));
  std::filesystem::remove(directory + "/tokenizer.json");
  std::ofstream(directory + "/tokenizer.json") << ByteFallbackJson().dump();
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    ASSERT_EQ(mkfifo((directory + "/" + name).c_str(), 0600), 0);
    EXPECT_THAT(Message(Tokenizer::Load(directory).status()),
                HasSubstr(absl::StrCat(directory, "/", name, ": not a regular file")));
    std::filesystem::remove(directory + "/" + name);
  }
}

TEST(Tokenizer, BrokenFilesAreRefusedWithTheReason) {
  const std::string whole = ByteFallbackJson().dump();
  for (const std::string& json : {std::string(), std::string("{}"), std::string("\xFF\xFE"),
                                  std::string("[1, 2]"), whole.substr(0, whole.size() / 2)}) {
    const auto tokenizer = Tokenizer::FromJson(json);
    EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(tokenizer.status()), HasSubstr("not a tokenizer.json"));
  }
  nlohmann::json wrong_merge = ByteFallbackJson();
  wrong_merge["model"]["merges"].push_back("q q");
  EXPECT_FALSE(Tokenizer::FromJson(wrong_merge.dump()).ok());
  nlohmann::json empty = ByteFallbackJson();
  empty["model"]["vocab"] = nlohmann::json::object();
  empty["model"]["merges"] = nlohmann::json::array();
  empty["added_tokens"] = nlohmann::json::array();
  EXPECT_FALSE(Tokenizer::FromJson(empty.dump()).ok());
}

TEST(Tokenizer, ATruncatedFileIsNamed) {
  std::string directory = ::testing::TempDir() + "tokenizerXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string whole = ByteFallbackJson().dump();
  std::ofstream(directory + "/tokenizer.json") << whole.substr(0, whole.size() - 10);
  const auto tokenizer = Tokenizer::Load(directory);
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(tokenizer.status()), HasSubstr(directory + "/tokenizer.json: "));
}

TEST(Tokenizer, ADecoderThatLooksAtNeighboursIsRefused) {
  nlohmann::json json = ByteFallbackJson();
  // CTC drops repeated tokens: text that was streamed would have to be taken back.
  json["decoder"] = {
      {"type", "CTC"}, {"pad_token", "h"}, {"word_delimiter_token", "▁"}, {"cleanup", true}};
  const auto tokenizer = Tokenizer::FromJson(json.dump());
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(tokenizer.status()), HasSubstr("decoder"));
}

TEST(Tokenizer, WordsWithoutADecoderAreJoinedBySpaces) {
  const auto words = Tokenizer::Load(tandem::testing::SourcePath("tests/model/goldens/padded"));
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ((*words)->vocabulary_size(), 89u);
  EXPECT_FALSE((*words)->IsToken(89));
  EXPECT_EQ(*(*words)->Decode({1, 2, 88}), "w1 w2 w88");
}

// The crate's cache of words would keep every new one, and what it was cut into.
TEST(Tokenizer, TextsLeaveNothingBehind) {
  constexpr int64_t kMaxGrowth = 64 << 10;
  std::mt19937 random(5);
  const auto demo = LoadDemo();
  const auto llama = MakeTokenizer(ByteFallbackJson());
  for (const Tokenizer* tokenizer : {demo.get(), llama.get()}) {
    const auto encode = [&](int texts) {
      for (int i = 0; i < texts; ++i) {
        std::string text(200, ' ');
        for (char& letter : text) {
          if (random() % 9 > 0) letter = static_cast<char>('a' + random() % 26);
        }
        ASSERT_TRUE(tokenizer->Encode(text).ok());
      }
    };
    encode(100);  // regular expressions have tables of their own
    const int64_t before = tandem::testing::AllocatedBytes();
    encode(1000);
    EXPECT_LE(tandem::testing::AllocatedBytes() - before, kMaxGrowth);
  }
}

TEST(Tokenizer, ManyThreadsMayUseOne) {
  const auto demo = LoadDemo();
  std::mt19937 random(3);
  std::vector<std::string> texts;
  for (int i = 0; i < 50; ++i) texts.push_back(RandomText(random, 40));
  std::vector<std::thread> threads;
  std::vector<int> failures(4, 0);
  for (size_t t = 0; t < failures.size(); ++t) {
    threads.emplace_back([&, t] {
      for (const std::string& text : texts) {
        const auto ids = demo->Encode(text);
        if (!ids.ok() || *demo->Decode(*ids) != text) ++failures[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(failures, ::testing::Each(0));
}

}  // namespace
}  // namespace tandem::tokenizer
