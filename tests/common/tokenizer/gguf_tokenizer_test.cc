// Tokenizers of vectors/ as GGUF metadata: the same ids as of their tokenizer.json.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/tokenizer/tokenizer.h"
#include "nlohmann/json.hpp"
#include "tests/support/gguf_writer.h"
#include "tests/support/paths.h"

namespace tandem::tokenizer {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Kind {
  const char* name;
  const char* model;
  const char* pre;
};

class GgufTokenizer : public ::testing::TestWithParam<Kind> {};

TEST_P(GgufTokenizer, GivesTheIdsOfItsTokenizerJson) {
  const std::string folder = ::tandem::testing::SourcePath("tests/common/tokenizer/vectors/");
  const auto json = nlohmann::json::parse(ReadFile(folder + GetParam().name + "/tokenizer.json"));
  const bool pieces = GetParam().model == std::string("llama");
  size_t size = 0;
  for (const auto& [token, id] : json["model"]["vocab"].items())
    size = std::max<size_t>(size, id.get<size_t>() + 1);
  for (const auto& added : json["added_tokens"])
    size = std::max<size_t>(size, added["id"].get<size_t>() + 1);
  std::vector<std::string> tokens(size), merges;
  std::vector<int32_t> types(size, 1);
  std::vector<float> scores(size);
  for (const auto& [token, id] : json["model"]["vocab"].items()) {
    tokens[id] = token;
    if (pieces && token.size() == 6 && token.rfind("<0x", 0) == 0) types[id] = 6;
    scores[id] = -id.get<float>();
  }
  for (const auto& added : json["added_tokens"]) {
    tokens[added["id"]] = added["content"];
    types[added["id"]] = added["special"].get<bool>() ? 3 : 4;
  }
  for (const auto& merge : json["model"]["merges"]) {
    merges.push_back(merge.is_string()
                         ? merge.get<std::string>()
                         : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  ::tandem::testing::GgufWriter writer;
  writer.Set("tokenizer.ggml.model", GetParam().model);
  writer.Set("tokenizer.ggml.pre", GetParam().pre);
  writer.Set("tokenizer.ggml.tokens", tokens);
  writer.Set("tokenizer.ggml.token_type", types);
  if (pieces) {
    writer.Set("tokenizer.ggml.scores", scores);
    writer.Set("tokenizer.ggml.bos_token_id", uint32_t{1});
    writer.Set("tokenizer.ggml.eos_token_id", uint32_t{2});
    writer.Set("tokenizer.ggml.unknown_token_id", uint32_t{0});
  } else {
    writer.Set("tokenizer.ggml.merges", merges);
    writer.Set("tokenizer.ggml.eos_token_id", uint32_t{696});
  }
  const auto path = std::filesystem::temp_directory_path() /
                    ("tandem_" + std::string(GetParam().name) + std::to_string(getpid()) + ".gguf");
  std::ofstream(path, std::ios::binary) << writer.Bytes();
  const auto ours = Tokenizer::Load(path.string());
  std::filesystem::remove(path);
  const auto theirs = Tokenizer::Load(folder + GetParam().name);
  ASSERT_TRUE(ours.ok()) << ours.status();
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  std::vector<std::string> texts = {ReadFile(folder + "prose.txt"),
                                    "I'LL pay 12345 \xe2\x82\xac",
                                    " a  b\n\n c ",
                                    "e\xcc\x81",
                                    "<|endoftext|>x",
                                    ""};
  for (const auto& vector :
       nlohmann::json::parse(ReadFile(folder + GetParam().name + "/vectors.json"))) {
    if (vector.is_object() && vector.contains("text")) texts.push_back(vector["text"]);
  }
  for (const std::string& text : texts) {
    const auto ids = (*ours)->Encode(text);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, *(*theirs)->Encode(text)) << text;
    // The special tokens of that llama2's file are none to a decoder.
    if (!pieces) {
      EXPECT_EQ(*(*ours)->Decode(*ids), *(*theirs)->Decode(*ids)) << text;
    }
  }
  EXPECT_EQ((*ours)->eos_token_ids().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, GgufTokenizer,
                         ::testing::Values(Kind{"gpt2", "gpt2", "gpt-2"},
                                           Kind{"qwen2", "gpt2", "qwen2"},
                                           Kind{"llama2", "llama", "default"}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tandem::tokenizer
