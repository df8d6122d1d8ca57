#include "client/pull/wanted_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem::client {
namespace {

using hub::Need;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WantedFilesTest, AreThoseOfTheModel) {
  const std::vector<std::string> files = {".gitattributes",
                                          "LICENSE",
                                          "README.md",
                                          "config.json",
                                          "consolidated.safetensors",
                                          "generation_config.json",
                                          "merges.txt",
                                          "model.safetensors",
                                          "onnx/config.json",
                                          "original/tokenizer.json",
                                          "pytorch_model.bin",
                                          "tokenizer.json",
                                          "tokenizer_config.json",
                                          "training_args.bin",
                                          "vocab.json"};
  EXPECT_THAT(WantedFiles(files, Need::kModel).value(),
              ElementsAre("config.json", "generation_config.json", "merges.txt", "tokenizer.json",
                          "tokenizer_config.json", "vocab.json"));
  EXPECT_THAT(WantedFiles(files, Need::kTokenizer).value(),
              ElementsAre("merges.txt", "tokenizer.json", "tokenizer_config.json", "vocab.json"));
  EXPECT_THAT(WantedWeights(files, "").value(), ElementsAre("model.safetensors"));
}

TEST(WantedFilesTest, FurtherChatTemplatesLieInAFolder) {
  const std::vector<std::string> files = {"additional_chat_templates/../x.jinja",
                                          "additional_chat_templates/notes.txt",
                                          "additional_chat_templates/tool_use.jinja",
                                          "chat_template.jinja",
                                          "other/a.jinja",
                                          "tokenizer.json"};
  EXPECT_THAT(WantedFiles(files, Need::kTokenizer).value(),
              ElementsAre("chat_template.jinja", "tokenizer.json",
                          "additional_chat_templates/tool_use.jinja"));
}

TEST(WantedFilesTest, ShardsAreThoseOfTheIndex) {
  const std::vector<std::string> files = {"config.json", "m-1.safetensors", "m-2.safetensors",
                                          "model.safetensors.index.json", "tokenizer.json"};
  EXPECT_THAT(WantedFiles(files, Need::kModel).value(),
              ElementsAre("config.json", "model.safetensors.index.json", "tokenizer.json"));
  EXPECT_THAT(WantedWeights(files, R"({"weight_map": {"a": "m-2.safetensors"}})").value(),
              ElementsAre("m-2.safetensors"));
  EXPECT_THAT(
      WantedWeights(files, R"({"weight_map": {"a": "m-3.safetensors"}})").status().message(),
      HasSubstr("m-3.safetensors"));
}

TEST(WantedFilesTest, AGgufIsOneFileOrItsParts) {
  const std::vector<std::string> files = {"a.Q8_0.gguf", "q/b-00001-of-00002.gguf",
                                          "q/b-00002-of-00002.gguf", "q/c-00001-of-00002.gguf"};
  EXPECT_THAT(WantedGguf(files, "a.Q8_0.gguf").value(), ElementsAre("a.Q8_0.gguf"));
  EXPECT_THAT(WantedGguf(files, "q/b-00001-of-00002.gguf").value(),
              ElementsAre("q/b-00001-of-00002.gguf", "q/b-00002-of-00002.gguf"));
  const auto said = [&](const std::string& file) {
    return std::string(WantedGguf(files, file).status().message());
  };
  // Of a split file the first part alone is a name to give.
  EXPECT_EQ(said("a.gguf"),
            "it has no file a.gguf; it has a.Q8_0.gguf, q/b-00001-of-00002.gguf, "
            "q/c-00001-of-00002.gguf");
  EXPECT_THAT(said("q/c-00001-of-00002.gguf"), HasSubstr("no file q/c-00002-of-00002.gguf"));
  EXPECT_THAT(said("q/b-00002-of-00002.gguf"), HasSubstr("give the first part"));
}

TEST(WantedFilesTest, ARepositoryWithoutAModelSaysWhatItHas) {
  const auto said = [](std::vector<std::string> files, Need need = Need::kModel) {
    return std::string(WantedFiles(files, need).status().message());
  };
  EXPECT_THAT(said({"a.Q8_0.gguf", "a.Q4_0.gguf"}),
              HasSubstr("as in OWNER/NAME:a.Q8_0.gguf; it has a.Q8_0.gguf, a.Q4_0.gguf"));
  EXPECT_THAT(said({"adapter_model.safetensors"}), HasSubstr("an adapter"));
  EXPECT_THAT(said({"pytorch_model-00001-of-00002.bin"}), HasSubstr("pickled"));
  EXPECT_THAT(said({"consolidated.safetensors"}), HasSubstr("another form"));
  EXPECT_THAT(said({"README.md"}), HasSubstr("not a model"));
  EXPECT_THAT(said({"model.safetensors"}), HasSubstr("config.json"));
  EXPECT_THAT(said({"tokenizer.model"}, Need::kTokenizer), HasSubstr("tokenizer.model alone"));
}

}  // namespace
}  // namespace tandem::client
