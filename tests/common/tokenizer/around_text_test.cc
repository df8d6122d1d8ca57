// add_bos_token and add_eos_token of tokenizer_config.json: when they count, and what they do.
#include "common/tokenizer/around_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/common/tokenizer/test_tokenizers.h"
#include "tests/support/log_lines.h"

namespace tandem::tokenizer {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kLlama[] = R"("tokenizer_class": "LlamaTokenizerFast")";

std::optional<AroundText> Read(const std::string& fields) {
  const auto around = ReadAroundText("{" + fields + "}");
  EXPECT_TRUE(around.ok()) << around.status();
  return around.value_or(std::nullopt);
}

std::string ErrorOf(const std::string& fields) {
  const absl::Status status = ReadAroundText(fields).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(AroundText, WhatIsWrittenCountsForLlamasClasses) {
  const auto llama = [](const std::string& fields) {
    return Read(absl::StrCat(kLlama, ", ", fields));
  };
  EXPECT_EQ(llama(R"("add_bos_token": true, "bos_token": "<b>")"), (AroundText{"<b>", ""}));
  EXPECT_EQ(llama(R"("add_bos_token": false, "bos_token": "<b>")"), (AroundText{"", ""}));
  EXPECT_EQ(llama(R"("add_bos_token": false, "add_eos_token": true, "eos_token": "<e>")"),
            (AroundText{"", "<e>"}));
  EXPECT_EQ(llama(R"("add_bos_token": true, "bos_token": {"content": "<b>", "lstrip": false})"),
            (AroundText{"<b>", ""}));
  // What the class has where nothing is written.
  EXPECT_EQ(llama(R"("add_eos_token": true)"), (AroundText{"<s>", "</s>"}));
  EXPECT_EQ(llama(R"("add_eos_token": false)"), (AroundText{"<s>", ""}));
}

TEST(AroundText, TheRestIsUpToTokenizerJson) {
  EXPECT_EQ(Read(kLlama), std::nullopt);
  EXPECT_EQ(Read(absl::StrCat(kLlama, R"(, "add_bos_token": null)")), std::nullopt);
  EXPECT_EQ(Read(R"("add_bos_token": true, "bos_token": "<s>")"), std::nullopt);
  EXPECT_EQ(Read(R"("tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": true)"),
            std::nullopt);
  EXPECT_EQ(Read(R"("tokenizer_class": "GPT2Tokenizer", "add_bos_token": false)"), std::nullopt);
}

TEST(AroundText, NamesWhatIsWrong) {
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("is not a JSON object"));
  EXPECT_THAT(ErrorOf("{"), HasSubstr("is not a JSON object"));
  EXPECT_THAT(ErrorOf(R"({"add_bos_token": "yes"})"),
              HasSubstr("add_bos_token is \"yes\": must be true or false"));
  EXPECT_THAT(ErrorOf(absl::StrCat("{", kLlama, R"(, "add_bos_token": true, "bos_token": null})")),
              HasSubstr("add_bos_token is true, but bos_token is null"));
  EXPECT_THAT(ErrorOf(absl::StrCat("{", kLlama, R"(, "add_eos_token": true, "eos_token": 2})")),
              HasSubstr("add_eos_token is true, but eos_token is 2"));
}

// A directory of the SentencePiece-like tokenizer: <s> is 1, </s> is 2, and tokenizer.json puts <s>
// in front.
class AroundTextOfADirectory : public ::testing::Test {
 protected:
  AroundTextOfADirectory() : path_(absl::StrCat(::testing::TempDir(), "around_text_", getpid())) {
    std::filesystem::create_directories(path_);
    WriteTokenizer(ByteFallbackJson());
  }
  ~AroundTextOfADirectory() override { std::filesystem::remove_all(path_); }

  void WriteTokenizer(const nlohmann::json& json) const {
    std::ofstream(path_ + "/tokenizer.json") << json.dump();
  }
  void WriteConfig(const std::string& fields) const {
    std::ofstream(path_ + "/tokenizer_config.json") << "{" << kLlama << ", " << fields << "}";
  }
  std::vector<uint32_t> Encode(bool add_special_tokens = true) const {
    const auto tokenizer = Tokenizer::Load(path_);
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return tokenizer.ok() ? *(*tokenizer)->Encode("hello", add_special_tokens)
                          : std::vector<uint32_t>();
  }

  const std::string path_;
};

TEST_F(AroundTextOfADirectory, OverrulesTokenizerJsonAndSaysSo) {
  const auto hello = ByteFallbackJson()["model"]["vocab"]["▁hello"].get<uint32_t>();
  EXPECT_THAT(Encode(), ElementsAre(1u, hello));
  tandem::testing::LogRecorder log;
  WriteConfig(R"("add_bos_token": true)");
  EXPECT_THAT(Encode(), ElementsAre(1u, hello));
  EXPECT_TRUE(log.Lines().empty()) << "the two agree";
  WriteConfig(R"("add_bos_token": false)");
  EXPECT_THAT(Encode(), ElementsAre(hello));
  ASSERT_EQ(log.Lines().size(), 1u);
  EXPECT_EQ(log.Lines()[0].event, "tokenizer_config_overrules_tokenizer");
  WriteConfig(R"("add_eos_token": true)");
  EXPECT_THAT(Encode(), ElementsAre(1u, hello, 2u));
  EXPECT_THAT(Encode(/*add_special_tokens=*/false), ElementsAre(hello));
}

TEST_F(AroundTextOfADirectory, AddsWhatTokenizerJsonDoesNot) {
  nlohmann::json json = ByteFallbackJson();
  const auto hello = json["model"]["vocab"]["▁hello"].get<uint32_t>();
  json["post_processor"] = nullptr;
  WriteTokenizer(json);
  EXPECT_THAT(Encode(), ElementsAre(hello));
  WriteConfig(R"("add_bos_token": true, "bos_token": {"content": "<s>"})");
  EXPECT_THAT(Encode(), ElementsAre(1u, hello));
}

TEST_F(AroundTextOfADirectory, NamesTheFileAndWhatIsWrong) {
  WriteConfig(R"("add_bos_token": true, "bos_token": "<begin>")");
  const absl::Status status = Tokenizer::Load(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(path_ + "/tokenizer_config.json: \"<begin>\""),
                    HasSubstr("not a token of tokenizer.json")));
  WriteConfig(R"("add_bos_token": 1)");
  EXPECT_THAT(std::string(Tokenizer::Load(path_).status().message()),
              HasSubstr("tokenizer_config.json: add_bos_token is 1: must be true or false"));
}

}  // namespace
}  // namespace tandem::tokenizer
