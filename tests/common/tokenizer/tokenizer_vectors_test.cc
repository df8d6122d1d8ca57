// Vocabularies against vectors made by other implementations: small ones of every kind that lie in
// vectors/ (tiktoken, sentencepiece), and real ones where the shared data is (llama.cpp,
// transformers, llama2.c).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/tokenizer/detokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/common/tokenizer/test_tokenizers.h"
#include "tests/support/paths.h"

namespace tandem::tokenizer {
namespace {

struct Vocabulary {
  std::string folder;       // of vectors/, or below the shared data's tokenizers/
  std::string vectors;      // of shared data, in its tests/: name.inp, name.out; empty: of vectors/
  bool bare_files = false;  // vocab.json and merges.txt instead of a tokenizer.json
  bool reversible = true;   // what is decoded is the text, to the byte
  uint32_t first_byte = 0;  // the first of 256 byte tokens of SentencePiece; 0: it has none

  bool is_shared() const { return !vectors.empty(); }
};

// Qwen2's tokenizer.json as transformers writes it, from its vocab.json and merges.txt.
nlohmann::json Qwen2Json(const std::string& folder) {
  nlohmann::json merges = nlohmann::json::array();
  std::istringstream lines(ReadAll(folder + "/merges.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.rfind("#version", 0) != 0) merges.push_back(line);
  }
  nlohmann::json added = nlohmann::json::array();
  const nlohmann::json specials = nlohmann::json::parse(ReadAll(folder + "/added_tokens.json"));
  for (const auto& [content, id] : specials.items()) {
    added.push_back({{"id", id},
                     {"content", content},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  constexpr char kSplit[] =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
      R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
  const nlohmann::json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", false},
                                     {"use_regex", false}};
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", {{"type", "NFC"}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Split"},
               {"pattern", {{"Regex", kSplit}}},
               {"behavior", "Isolated"},
               {"invert", false}},
              byte_level}}}},
          {"post_processor", byte_level},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"vocab", nlohmann::json::parse(ReadAll(folder + "/vocab.json"))},
            {"merges", merges}}}};
}

class VectorsTest : public ::testing::TestWithParam<Vocabulary> {
 protected:
  void SetUp() override {
    const bool shared = GetParam().is_shared();
    folder_ = (shared ? tandem::testing::SharedPath("tokenizers/")
                      : tandem::testing::SourcePath("tests/common/tokenizer/vectors/")) +
              GetParam().folder;
    if (shared && !std::filesystem::exists(folder_)) {
      GTEST_SKIP() << "no test data in " << folder_;
    }
    json_ =
        GetParam().bare_files ? Qwen2Json(folder_).dump() : ReadAll(folder_ + "/tokenizer.json");
    auto tokenizer = Tokenizer::FromJson(json_);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = std::move(*tokenizer);
  }

  std::string folder_;
  std::string json_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

class TreeVectorsTest : public VectorsTest {};

TEST_P(TreeVectorsTest, TextToIdsAndBack) {
  const nlohmann::json file = nlohmann::json::parse(ReadAll(folder_ + "/vectors.json"));
  const auto bos = file["bos"].get<std::vector<uint32_t>>();
  ASSERT_GE(file["vectors"].size(), 45u);
  for (const nlohmann::json& vector : file["vectors"]) {
    const auto text = vector["text"].get<std::string>();
    const auto expected = vector["ids"].get<std::vector<uint32_t>>();
    SCOPED_TRACE(text);
    const auto ids = tokenizer_->Encode(text, /*add_special_tokens=*/false);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, expected);
    std::vector<uint32_t> all = bos;
    all.insert(all.end(), expected.begin(), expected.end());
    EXPECT_EQ(*tokenizer_->Encode(text), all);
    EXPECT_EQ(*tokenizer_->Decode(expected), vector["decoded"].get<std::string>());
  }
}

class SharedVectorsTest : public VectorsTest {};

TEST_P(SharedVectorsTest, TextToIdsAndBack) {
  const std::string name = folder_ + "/tests/" + GetParam().vectors;
  std::vector<std::string> texts =
      absl::StrSplit(ReadAll(name + ".inp"), "\n__ggml_vocab_test__\n");
  std::vector<std::string> lines = absl::StrSplit(ReadAll(name + ".out"), '\n');
  ASSERT_EQ(texts.size(), 47u);  // 46, and nothing after the last mark
  ASSERT_GE(lines.size(), 46u);
  for (size_t i = 0; i < 46; ++i) {
    std::vector<uint32_t> expected;
    for (const absl::string_view word : absl::StrSplit(lines[i], ' ', absl::SkipEmpty())) {
      uint32_t id = 0;
      ASSERT_TRUE(absl::SimpleAtoi(word, &id)) << lines[i];
      expected.push_back(id);
    }
    const auto ids = tokenizer_->Encode(texts[i], /*add_special_tokens=*/false);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, expected) << "text " << i << ": " << texts[i];
    EXPECT_EQ(*tokenizer_->Decode(*ids), texts[i]);
  }
}

TEST_P(VectorsTest, EveryIdAloneAndRandomIdsAsTheCrate) {
  const CrateDecoder crate(json_);
  for (uint32_t id = 0; id < tokenizer_->vocabulary_size(); ++id) {
    if (!tokenizer_->IsToken(id)) continue;
    ASSERT_EQ(*tokenizer_->Decode({id}), crate.Decode({id})) << id;
  }
  std::mt19937 random(5);
  const uint32_t first_byte = GetParam().first_byte;
  for (int run = 0; run < 300; ++run) {
    std::vector<uint32_t> ids;
    for (size_t i = random() % 50; i > 0; --i) {
      const uint32_t id = random() % tokenizer_->vocabulary_size();
      // The crate throws away a run of byte tokens if one is wrong; we do not.
      const bool is_byte = first_byte > 0 && id >= first_byte && id < first_byte + 256;
      if (tokenizer_->IsToken(id) && !is_byte) ids.push_back(id);
    }
    IncrementalDetokenizer detokenizer(*tokenizer_, {});
    std::string text;
    for (const uint32_t id : ids) {
      const auto piece = detokenizer.Feed(id);
      ASSERT_TRUE(piece.ok() && IsUtf8(*piece));
      text += *piece;
    }
    ASSERT_EQ(text + detokenizer.Finish(), crate.Decode(ids));
  }
}

TEST_P(VectorsTest, RandomTextStreamsBack) {
  std::mt19937 random(9);
  const CrateDecoder crate(json_);
  for (int run = 0; run < 100; ++run) {
    const std::string text = RandomText(random, 50);
    const auto ids = tokenizer_->Encode(text, /*add_special_tokens=*/false);
    ASSERT_TRUE(ids.ok());
    ASSERT_EQ(*tokenizer_->Decode(*ids), crate.Decode(*ids));
    if (!GetParam().reversible) continue;
    ASSERT_EQ(*tokenizer_->Decode(*ids), text);
  }
}

std::string NameOf(const ::testing::TestParamInfo<Vocabulary>& info) {
  std::string name = info.param.folder;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// NFC changes some texts. The unigrams have no token for a character that they do not know.
const auto kTree = ::testing::Values(Vocabulary{.folder = "gpt2"},
                                     Vocabulary{.folder = "qwen2", .reversible = false},
                                     Vocabulary{.folder = "llama2", .first_byte = 3},
                                     Vocabulary{.folder = "unigram", .reversible = false});
const auto kShared = ::testing::Values(
    Vocabulary{.folder = "gpt2", .vectors = "ggml-vocab-gpt-2.gguf"},
    Vocabulary{.folder = "llama-2", .vectors = "ggml-vocab-llama-spm.gguf", .first_byte = 3},
    Vocabulary{.folder = "qwen2",
               .vectors = "ggml-vocab-qwen2.gguf",
               .bare_files = true,
               .reversible = false},
    Vocabulary{.folder = "gpt-neox-20b", .vectors = "ggml-vocab-mpt.gguf", .reversible = false});

INSTANTIATE_TEST_SUITE_P(Tree, VectorsTest, kTree, NameOf);
INSTANTIATE_TEST_SUITE_P(Tree, TreeVectorsTest, kTree, NameOf);
INSTANTIATE_TEST_SUITE_P(Shared, VectorsTest, kShared, NameOf);
INSTANTIATE_TEST_SUITE_P(Shared, SharedVectorsTest, kShared, NameOf);

// A long text with the ids of the original implementations.
class LongTextTest : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(LongTextTest, Encodes) {
  const std::string folder = tandem::testing::SharedPath("tokenizers/") + GetParam().first;
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no test data in " << folder;
  const auto tokenizer = Tokenizer::Load(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto vector = nlohmann::json::parse(ReadAll(folder + "/tests/" + GetParam().second));
  const auto ids = (*tokenizer)->Encode(vector["text"].get<std::string>());
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(*ids, vector["token_ids"].get<std::vector<uint32_t>>());
}

INSTANTIATE_TEST_SUITE_P(Shared, LongTextTest,
                         ::testing::Values(std::pair("gpt2", "swift_gpt2_encoded_tokens.json"),
                                           std::pair("llama-2", "swift_llama_encoded.json")));

TEST(Stories260k, GoldenPromptsAndTexts) {
  const std::string folder = tandem::testing::SharedPath("models/stories260k-hf");
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no test data in " << folder;
  const auto tokenizer = Tokenizer::Load(folder);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->vocabulary_size(), 512u);
  for (const auto& golden : nlohmann::json::parse(ReadAll(folder + "/golden_greedy.json"))) {
    const auto prompt = golden["prompt_ids"].get<std::vector<uint32_t>>();
    EXPECT_EQ(*(*tokenizer)->Encode(golden["prompt"].get<std::string>()), prompt);
    EXPECT_EQ(*(*tokenizer)->Decode(prompt), golden["prompt"].get<std::string>());
    IncrementalDetokenizer detokenizer(**tokenizer, prompt);
    std::string text;
    for (const uint32_t id : golden["greedy_ids"].get<std::vector<uint32_t>>()) {
      const auto piece = detokenizer.Feed(id);
      ASSERT_TRUE(piece.ok());
      text += *piece;
    }
    EXPECT_EQ(text + detokenizer.Finish(), golden["text"].get<std::string>());
  }
}

}  // namespace
}  // namespace tandem::tokenizer
