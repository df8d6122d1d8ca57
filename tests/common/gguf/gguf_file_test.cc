// What is refused of a file, and what is read of a right one.
#include "common/gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "common/gguf/model_texts.h"
#include "tests/support/gguf_writer.h"

namespace tandem::gguf {
namespace {

using ::tandem::testing::GgufWriter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint32_t kF32 = 0, kQ4_0 = 2;

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("tandem_gguf_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return (path_ / name).string();
  }

 private:
  const std::filesystem::path path_;
};

GgufWriter Small() {
  GgufWriter writer;
  writer.Set("general.architecture", "llama");
  writer.Set("list", std::vector<std::string>{"a", "", "\xc4\xa0t"});
  writer.Set("numbers", std::vector<float>{0.5f, -1});
  writer.Set("yes", true);
  writer.Set("count", uint32_t{7});
  writer.Add("first", kF32, {2, 3}, std::string(24, 'x'));
  writer.Add("second", kQ4_0, {2, 64}, std::string(72, 'y'));
  return writer;
}

TEST(GgufFile, ReadsKeysAndTensors) {
  Folder folder;
  for (const uint32_t version : {2u, 3u}) {
    GgufWriter writer = Small();
    writer.version = version;
    const auto file = File::Open(folder.Write("small.gguf", writer.Bytes()));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->String("general.architecture"), "llama");
    EXPECT_EQ((*file)->Integer("count"), 7);
    EXPECT_EQ((*file)->Bool("yes"), true);
    EXPECT_THAT(*(*file)->Strings("list"), ElementsAre("a", "", "\xc4\xa0t"));
    EXPECT_THAT(*(*file)->Numbers("numbers"), ElementsAre(0.5, -1));
    EXPECT_EQ((*file)->Integer("list"), std::nullopt);
    const Tensor& tensor = (*file)->tensors().at("second");
    EXPECT_EQ(tensor.type, "Q4_0");
    EXPECT_THAT(tensor.shape, ElementsAre(2, 64));
    EXPECT_EQ(std::string(static_cast<const char*>(tensor.data), tensor.bytes),
              std::string(72, 'y'));
  }
}

struct Wrong {
  const char* name;
  std::function<std::string(GgufWriter)> bytes;
  const char* message;
};

std::string Changed(GgufWriter writer, const std::function<void(GgufWriter&)>& change) {
  change(writer);
  return writer.Bytes();
}

class GgufRefusal : public ::testing::TestWithParam<Wrong> {};

TEST_P(GgufRefusal, NamesWhatIsWrong) {
  Folder folder;
  const auto file = File::Open(folder.Write("wrong.gguf", GetParam().bytes(Small())));
  EXPECT_THAT(std::string(file.status().message()), HasSubstr(GetParam().message));
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("wrong.gguf"));
}

Wrong Change(const char* name, const std::function<void(GgufWriter&)>& change,
             const char* message) {
  return {name, [change](GgufWriter writer) { return Changed(std::move(writer), change); },
          message};
}

Wrong Alignment(const char* name, double alignment) {
  return Change(
      name, [alignment](GgufWriter& w) { w.Set("general.alignment", alignment); },
      "general.alignment is not a power of 2 from 8");
}

INSTANTIATE_TEST_SUITE_P(
    All, GgufRefusal,
    ::testing::Values(
        Wrong{"Empty", [](const GgufWriter&) { return ""; }, "is empty"},
        Change(
            "Magic", [](GgufWriter& w) { w.magic = "GGML"; }, "does not begin with GGUF"),
        Change(
            "Version", [](GgufWriter& w) { w.version = 4; },
            "version 4 of GGUF; supported: 2 and 3"),
        Change(
            "BigEndian", [](GgufWriter& w) { w.version = 3 << 24; }, "little-endian"),
        Change(
            "Keys", [](GgufWriter& w) { w.key_count = uint64_t{1} << 60; },
            "supported: at most 65536"),
        Change(
            "Tensors", [](GgufWriter& w) { w.tensor_count = 70000; }, "supported: at most 65536"),
        Change(
            "MoreKeysThanThereAre", [](GgufWriter& w) { w.key_count = 60000; }, "wrong.gguf"),
        Change(
            "LongText", [](GgufWriter& w) { w.Key("t", 8, GgufWriter::Raw(uint64_t{1} << 62)); },
            "truncated"),
        Change(
            "LongArray",
            [](GgufWriter& w) {
              w.Key("t", 9, GgufWriter::Raw(uint32_t{0}) + GgufWriter::Raw(uint64_t{1} << 40));
            },
            "key t is an array of 1099511627776"),
        Change(
            "ArrayOfArrays",
            [](GgufWriter& w) {
              w.Key("t", 9, GgufWriter::Raw(uint32_t{9}) + GgufWriter::Raw(uint64_t{0}));
            },
            "an array of arrays"),
        Change(
            "ValueType", [](GgufWriter& w) { w.Key("t", 13, "12345678"); },
            "type 13, which GGUF does not have"),
        Change(
            "KeyTwice", [](GgufWriter& w) { w.Set("yes", false); }, "key yes is there twice"),
        Change(
            "TensorTwice", [](GgufWriter& w) { w.Add("first", kF32, {1}, "1234"); },
            "tensor first is there twice"),
        Alignment("AlignmentOne", 1), Alignment("AlignmentSix", 24),
        Alignment("AlignmentMinus", -1), Alignment("AlignmentHuge", 1e300),
        Alignment("AlignmentNan", NAN),
        Change(
            "NoDimensions", [](GgufWriter& w) { w.Add("t", kF32, {}, ""); },
            "tensor t has 0 dimensions"),
        Change(
            "EmptyDimension",
            [](GgufWriter& w) {
              w.Add("t", kF32, {2, 0}, "");
            },
            "a dimension of 0"),
        Change(
            "Huge",
            [](GgufWriter& w) {
              w.Add("t", kF32, {1 << 30, 1 << 30, 1 << 30}, "");
            },
            "larger than any file"),
        Change(
            "TensorType", [](GgufWriter& w) { w.Add("t", 16, {256}, ""); },
            "ggml's type 16; supported: F32"),
        Change(
            "Blocks", [](GgufWriter& w) { w.Add("t", kQ4_0, {33}, ""); },
            "not whole blocks of Q4_0"),
        Change(
            "Unaligned", [](GgufWriter& w) { w.AddAt("t", kF32, {1}, 4); },
            "not a multiple of the alignment, 32"),
        Change(
            "Overlap", [](GgufWriter& w) { w.AddAt("t", kF32, {1}, 0); }, "overlap"),
        Change(
            "BehindTheEnd", [](GgufWriter& w) { w.AddAt("t", kF32, {1}, 1 << 20); },
            "truncated: tensor t"),
        Change(
            "SplitNumber", [](GgufWriter& w) { w.Set("split.no", uint32_t{1}); },
            "split.no is not 0")),
    [](const auto& test) { return test.param.name; });

// Cut anywhere, it is refused and nothing behind its end is read (AddressSanitizer).
TEST(GgufFile, IsRefusedWhereverItIsCut) {
  Folder folder;
  const std::string whole = Small().Bytes();
  for (size_t size = 1; size + 32 < whole.size(); size += 3) {
    const auto file = File::Open(folder.Write("cut.gguf", whole.substr(0, size)));
    ASSERT_FALSE(file.ok()) << size;
    if (size > 24) {
      EXPECT_THAT(std::string(file.status().message()), HasSubstr("truncated")) << size;
    }
  }
}

TEST(GgufFile, PartsAreOfOneModel) {
  Folder folder;
  GgufWriter first = Small(), second;
  first.Set("split.no", uint32_t{0});
  first.Set("split.count", uint32_t{2});
  first.Set("split.tensors.count", uint32_t{3});
  second.Set("split.no", uint32_t{1});
  second.Add("third", kF32, {1}, "1234");
  const std::string path = folder.Write("m-00001-of-00002.gguf", first.Bytes());
  EXPECT_THAT(std::string(File::Open(path).status().message()), HasSubstr("m-00002-of-00002.gguf"));
  const std::string other = folder.Write("m-00002-of-00002.gguf", second.Bytes());
  const auto both = File::Open(path);
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ((*both)->tensors().size(), 3u);
  EXPECT_THAT(std::string(File::Open(other).status().message()), HasSubstr("give the first part"));
  second.Add("fourth", kF32, {1}, "1234");
  folder.Write("m-00002-of-00002.gguf", second.Bytes());
  EXPECT_THAT(std::string(File::Open(path).status().message()),
              HasSubstr("split.tensors.count is 3"));
}

struct WrongModel {
  const char* name;
  const char* file;
  std::function<void(GgufWriter&)> change;
  const char* message;
};

class GgufModelRefusal : public ::testing::TestWithParam<WrongModel> {};

TEST_P(GgufModelRefusal, NamesWhatIsWrong) {
  Folder folder;
  GgufWriter writer;
  GetParam().change(writer);
  const std::string path = folder.Write("model.gguf", writer.Bytes());
  const auto text = ReadModelText(path + "/" + GetParam().file, 1 << 20);
  EXPECT_THAT(std::string(text.status().message()), HasSubstr(GetParam().message));
}

void Tokens(GgufWriter& writer, const std::string& model) {
  writer.Set("tokenizer.ggml.model", model);
  writer.Set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab"});
}

INSTANTIATE_TEST_SUITE_P(
    All, GgufModelRefusal,
    ::testing::Values(
        WrongModel{"Architecture", "config.json",
                   [](GgufWriter& w) { w.Set("general.architecture", "rwkv7"); },
                   "general.architecture is rwkv7; supported: llama, qwen2"},
        WrongModel{"Missing", "config.json",
                   [](GgufWriter& w) { w.Set("general.architecture", "llama"); },
                   "key llama.context_length is missing; key llama.embedding_length is missing"},
        WrongModel{"WrongKind", "config.json",
                   [](GgufWriter& w) {
                     w.Set("general.architecture", "llama");
                     w.Set("llama.context_length", "long");
                   },
                   "key llama.context_length is not a whole number"},
        WrongModel{"Experts", "config.json",
                   [](GgufWriter& w) {
                     w.Set("general.architecture", "llama");
                     w.Set("llama.expert_count", uint32_t{8});
                   },
                   "mixtures of experts are not served"},
        WrongModel{"Softcapping", "config.json",
                   [](GgufWriter& w) {
                     w.Set("general.architecture", "gemma3");
                     w.Set("gemma3.final_logit_softcapping", 30.0f);
                   },
                   "key gemma3.final_logit_softcapping is 30; supported: 0"},
        WrongModel{"Rope", "config.json",
                   [](GgufWriter& w) {
                     w.Set("general.architecture", "llama");
                     w.Set("llama.rope.scaling.type", "spiral");
                   },
                   "is spiral; supported: none, linear, yarn"},
        WrongModel{"YarnRamp", "config.json",
                   [](GgufWriter& w) {
                     w.Set("general.architecture", "llama");
                     w.Set("llama.rope.scaling.type", "yarn");
                     w.Set("llama.rope.scaling.yarn_ext_factor", 0.5f);
                   },
                   "key llama.rope.scaling.yarn_ext_factor is 0.5; supported: 1"},
        WrongModel{"YarnLog", "config.json",
                   [](GgufWriter& w) {
                     w.Set("general.architecture", "llama");
                     w.Set("llama.rope.scaling.type", "yarn");
                     w.Set("llama.rope.scaling.yarn_log_multiplier", 0.125f);
                   },
                   "key llama.rope.scaling.yarn_log_multiplier is 0.125; supported: 0"},
        WrongModel{"FactorBesideFactors", "config.json",
                   [](GgufWriter& w) {
                     w.Set("general.architecture", "llama");
                     w.Set("llama.rope.scaling.factor", 8.0f);
                     w.Add("rope_freqs.weight", kF32, {1}, "abcd");
                   },
                   "key llama.rope.scaling.factor is 8 beside a tensor of factors; supported: 1"},
        WrongModel{"ManyFactors", "config.json",
                   [](GgufWriter& w) {
                     w.Set("general.architecture", "llama");
                     w.Add("rope_freqs.weight", kF32, {5000}, std::string(20000, 'x'));
                   },
                   "tensor rope_freqs.weight is F32 of 20000 bytes; supported: F32, at most 4096"},
        WrongModel{"ValueLength", "config.json",
                   [](GgufWriter& w) {
                     w.Set("general.architecture", "qwen3");
                     w.Set("qwen3.attention.key_length", uint32_t{128});
                     w.Set("qwen3.attention.value_length", uint32_t{64});
                   },
                   "key qwen3.attention.value_length is 64; supported: 128"},
        WrongModel{"PartRotates", "config.json",
                   [](GgufWriter& w) {
                     w.Set("general.architecture", "llama");
                     w.Set("llama.embedding_length", uint32_t{256});
                     w.Set("llama.attention.head_count", uint32_t{4});
                     w.Set("llama.rope.dimension_count", uint32_t{32});
                   },
                   "key llama.rope.dimension_count is 32; supported: 64"},
        WrongModel{"HeadOfItsOwn", "config.json",
                   [](GgufWriter& w) {
                     w.Set("general.architecture", "phi3");
                     w.Set("phi3.embedding_length", uint32_t{256});
                     w.Set("phi3.attention.head_count", uint32_t{4});
                     w.Set("phi3.attention.key_length", uint32_t{32});
                   },
                   "key phi3.attention.key_length is 32; supported: 64"},
        WrongModel{"NoTokens", "tokenizer.json",
                   [](GgufWriter& w) { w.Set("tokenizer.ggml.model", "gpt2"); },
                   "tokenizer.ggml.tokens is missing"},
        WrongModel{"Tokenizer", "tokenizer.json", [](GgufWriter& w) { Tokens(w, "rwkv"); },
                   "tokenizer.ggml.model is rwkv; supported: gpt2, llama"},
        WrongModel{"Pre", "tokenizer.json",
                   [](GgufWriter& w) {
                     Tokens(w, "gpt2");
                     w.Set("tokenizer.ggml.pre", "own");
                   },
                   "tokenizer.ggml.pre is own; supported: gpt-2"},
        WrongModel{"TokenTwice", "tokenizer.json",
                   [](GgufWriter& w) {
                     w.Set("tokenizer.ggml.model", "gpt2");
                     w.Set("tokenizer.ggml.tokens", std::vector<std::string>{"b", "a", "b"});
                   },
                   "tokens 0 and 2 of tokenizer.ggml.tokens are both b"},
        WrongModel{
            "TokenInPieces", "tokenizer_config.json",
            [](GgufWriter& w) {
              w.Set("tokenizer.ggml.model", "gpt2");
              w.Set("tokenizer.ggml.tokens", std::vector<std::string>{"\xef\xbf\xbd", "\xe2"});
            },
            "token 1 of tokenizer.ggml.tokens"},
        WrongModel{"Merges", "tokenizer.json",
                   [](GgufWriter& w) {
                     Tokens(w, "gpt2");
                     w.Set("tokenizer.ggml.pre", "gpt-2");
                     w.Set("tokenizer.ggml.merges", std::vector<std::string>{"a b", "ab"});
                   },
                   "entry 1 of tokenizer.ggml.merges"},
        WrongModel{"Types", "tokenizer.json",
                   [](GgufWriter& w) {
                     Tokens(w, "gpt2");
                     w.Set("tokenizer.ggml.token_type", std::vector<int32_t>{1});
                   },
                   "has 1 entries for 3 tokens"},
        WrongModel{"Scores", "tokenizer.json", [](GgufWriter& w) { Tokens(w, "llama"); },
                   "tokenizer.ggml.scores is missing"},
        WrongModel{"Id", "tokenizer_config.json",
                   [](GgufWriter& w) {
                     Tokens(w, "gpt2");
                     w.Set("tokenizer.ggml.eos_token_id", uint32_t{3});
                   },
                   "tokenizer.ggml.eos_token_id is 3, and there are 3 tokens"},
        WrongModel{"LongPiece", "tokenizer.json",
                   [](GgufWriter& w) {
                     w.Set("tokenizer.ggml.model", "llama");
                     w.Set("tokenizer.ggml.tokens",
                           std::vector<std::string>{std::string(600, 'a')});
                     w.Set("tokenizer.ggml.scores", std::vector<float>{0});
                   },
                   "token 0 has 600 bytes; supported: at most 512"}),
    [](const auto& test) { return test.param.name; });

GgufWriter Yarn(const std::string& type) {
  GgufWriter writer;
  writer.Set("general.architecture", "llama");
  for (const char* key : {"context_length", "embedding_length", "feed_forward_length",
                          "block_count", "attention.head_count"}) {
    writer.Set(std::string("llama.") + key, uint32_t{16});
  }
  writer.Set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  if (!type.empty()) writer.Set("llama.rope.scaling.type", type);
  writer.Set("llama.rope.scaling.factor", 4.0f);
  return writer;
}

std::string ConfigOf(const GgufWriter& writer) {
  Folder folder;
  const auto text =
      ReadModelText(folder.Write("model.gguf", writer.Bytes()) + "/config.json", 1 << 20);
  return text.ok() ? *text : std::string(text.status().message());
}

TEST(GgufConfig, SaysWhatScalesARope) {
  GgufWriter yarn = Yarn("yarn");
  yarn.Set("llama.rope.scaling.yarn_beta_fast", 16.0f);
  yarn.Set("llama.rope.scaling.yarn_beta_slow", 2.0f);
  yarn.Set("llama.rope.scaling.yarn_ext_factor", 1.0f);
  EXPECT_THAT(ConfigOf(yarn), HasSubstr(R"({"rope_type":"yarn","factor":4.0,"beta_fast":16.0,)"
                                        R"("beta_slow":2.0})"));
  // 0.5 (1 + ln(4) / 10)
  yarn.Set("llama.rope.scaling.yarn_attn_factor", 0.5f);
  EXPECT_THAT(ConfigOf(yarn), HasSubstr(R"("attention_factor":0.569314)"));
  // As llama.cpp reads a factor without a type.
  EXPECT_THAT(ConfigOf(Yarn("")), HasSubstr(R"({"rope_type":"linear","factor":4.0})"));
  EXPECT_THAT(ConfigOf(Yarn("none")), Not(HasSubstr("rope_scaling")));
}

TEST(GgufModelText, ThatIsTooLongOrNotThereIsRefusedByName) {
  Folder folder;
  GgufWriter writer;
  Tokens(writer, "gpt2");
  writer.Set("tokenizer.chat_template", std::string(1000, 'x'));
  const std::string path = folder.Write("model.gguf", writer.Bytes());
  EXPECT_TRUE(ReadModelText(path + "/tokenizer_config.json", 2000).ok());
  const absl::Status longer = ReadModelText(path + "/tokenizer_config.json", 1000).status();
  EXPECT_TRUE(absl::IsInvalidArgument(longer)) << longer;
  EXPECT_THAT(std::string(longer.message()), HasSubstr("it may have at most 1000"));
  const absl::Status nowhere = ReadModelText("/no/where.gguf/tokenizer.json", 1000).status();
  EXPECT_TRUE(absl::IsNotFound(nowhere)) << nowhere;
  EXPECT_THAT(std::string(nowhere.message()), ::testing::StartsWith("/no/where.gguf: No such"));
}

}  // namespace
}  // namespace tandem::gguf
