// LibTorch's step against the decoder of model/ and against transformers. Each TEST takes all
// models: loading LibTorch costs more than they do.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/files/safetensors.h"
#include "tests/model/files.h"
#include "tests/model/support.h"
#include "tests/support/json.h"
#include "tests/torch/step_support.h"

namespace tandem::torch {
namespace {

using model::LanguageModel;
using model::testing::AllLogits;
using model::testing::GoldenDirectory;
using model::testing::GoldenVariants;
using model::testing::GreedyIds;
using model::testing::RandomTokens;
using model::testing::RelativeDeviation;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kTolerance = 1e-4;  // of fp32, relative to the row's largest logit

std::string Demo(const char* name) {
  return tandem::testing::SourcePath(std::string("demo/") + name);
}

// Of a model's text that transformers computed, too.
struct Golden {
  std::vector<uint32_t> tokens;
  std::vector<float> logits;  // [tokens, vocabulary]

  absl::Span<const float> row(size_t i) const {
    const size_t vocabulary = logits.size() / tokens.size();
    return absl::MakeConstSpan(logits).subspan(i * vocabulary, vocabulary);
  }
};

std::vector<Golden> GoldensOf(const std::string& directory) {
  const auto file = model::SafetensorsFile::Open(directory + "/golden.safetensors");
  EXPECT_TRUE(file.ok()) << file.status();
  const base::JsonValue json = model::testing::ReadJson(directory + "/golden.json");
  std::vector<Golden> goldens;
  for (const base::JsonValue& sequence : json["sequences"].Elements()) {
    Golden golden;
    golden.tokens = tandem::testing::IdsOf(sequence["tokens"]);
    const auto& view = (*file)->tensors().at(sequence["logits"].String().value());
    golden.logits.resize(view.bytes / sizeof(float));
    std::memcpy(golden.logits.data(), view.data, view.bytes);
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

TEST(StepParityTest, LogitsAndGreedyIdsEqualTheDecodersAndTransformers) {
  for (const std::string& variant : GoldenVariants()) {
    SCOPED_TRACE(variant);
    const std::string directory = GoldenDirectory(variant);
    auto torch = LoadTorch(directory);
    ASSERT_NE(torch, nullptr);
    auto decoder = LoadDecoder(directory);
    EXPECT_EQ(torch->info().model_id, decoder->info().model_id);
    EXPECT_EQ(torch->info().eos_token_ids, decoder->info().eos_token_ids);
    for (const Golden& golden : GoldensOf(directory)) {
      const auto rows = AllLogits(*torch, golden.tokens, 48);
      ASSERT_EQ(rows.size(), golden.tokens.size());
      for (size_t row = 0; row < rows.size(); ++row) {
        ASSERT_LT(RelativeDeviation(rows[row], golden.row(row)), kTolerance) << "row " << row;
      }
      EXPECT_LT(DeviationFromDecoder(*torch, *decoder, golden.tokens), kTolerance);
    }
    const base::JsonValue greedy = model::testing::ReadJson(directory + "/golden.json")["greedy"];
    const std::vector<uint32_t> prompt = greedy.Has("prompt")
                                             ? tandem::testing::IdsOf(greedy["prompt"])
                                             : std::vector<uint32_t>{3, 1, 4, 1, 5};
    const auto ids = GreedyIds(*torch, prompt, 64);
    EXPECT_EQ(ids, GreedyIds(*decoder, prompt, 64));
    if (greedy.Has("ids")) {
      EXPECT_EQ(ids, tandem::testing::IdsOf(greedy["ids"]));
    }
  }
}

// Windows that begin in one page of the cache and end in the next.
TEST(StepParityTest, AWindowCrossesPages) {
  model::testing::TemporaryDirectory directory;
  directory.CopyModel("mistral");
  directory.EditJson("config.json", [](auto& json) {
    json["sliding_window"] = 37;
    json["max_position_embeddings"] = 512;
  });
  auto torch = LoadTorch(directory.path());
  ASSERT_NE(torch, nullptr);
  std::mt19937 random(3);
  const auto tokens = RandomTokens(random, 300, torch->info().vocabulary_size);
  EXPECT_LT(DeviationFromDecoder(*torch, *LoadDecoder(directory.path()), tokens), kTolerance);
  EXPECT_EQ(AllLogits(*torch, tokens, 60), AllLogits(*torch, tokens, 7));
}

// Each family, and Llamas with biases and with one matrix for embeddings and output.
std::vector<std::string> RoundedVariants() {
  std::vector<std::string> variants = model::testing::FamilyVariants();
  for (const char* llama : {"biases", "tied"}) variants.push_back(llama);
  return variants;
}

// Sixteen bits round weights, activations and the cache: far from equal, and far from wrong.
TEST(StepParityTest, SixteenBitsAreNear) {
  for (const auto& [type, tolerance] :
       {std::pair(ComputeType::kBfloat16, 0.1), std::pair(ComputeType::kFloat16, 0.1 / 8)}) {
    for (const std::string& variant : RoundedVariants()) {
      auto torch = LoadTorch(GoldenDirectory(variant), {type});
      ASSERT_NE(torch, nullptr);
      auto decoder = LoadDecoder(GoldenDirectory(variant));
      std::mt19937 random(2);
      const auto tokens = RandomTokens(random, 24, torch->info().vocabulary_size);
      const double deviation = DeviationFromDecoder(*torch, *decoder, tokens);
      EXPECT_LT(deviation, tolerance) << variant;
      EXPECT_GT(deviation, 1e-5) << variant << ": nothing was rounded";
    }
  }
}

// Where fp32 differs in its last place, a whole number may be the next one.
TEST(StepParityTest, WholeNumbersAreNearTheDecoders) {
  for (const std::string& variant : RoundedVariants()) {
    auto torch = LoadTorch(GoldenDirectory(variant), {ComputeType::kInt8});
    ASSERT_NE(torch, nullptr);
    EXPECT_THAT(torch->info().numerics_id, HasSubstr("/int8/"));
    auto decoder = LoadDecoder(GoldenDirectory(variant), model::Dtype::kInt8ByRow);
    std::mt19937 random(2);
    const auto tokens = RandomTokens(random, 24, torch->info().vocabulary_size);
    EXPECT_LT(DeviationFromDecoder(*torch, *decoder, tokens), 0.05) << variant;
  }
}

// Writes other numbers over an fp32 tensor.
void SetTensor(const model::testing::TemporaryDirectory& directory, const std::string& name,
               const std::function<float()>& number) {
  const std::string path = directory.file("model.safetensors");
  std::string bytes = model::testing::ReadBytes(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  const auto& offsets = header.at(name).at("data_offsets");
  for (size_t at = offsets[0]; at < offsets[1]; at += sizeof(float)) {
    const float value = number();
    std::memcpy(bytes.data() + 8 + length + at, &value, sizeof(value));
  }
  model::testing::WriteBytes(path, bytes);
}

// A model whose layers add nothing, and whose embeddings are small whole numbers: then the norm
// before the logits is the same in any order of its sum, and what is left is one int8 product.
TEST(StepParityTest, AProductOfWholeNumbersHasTheDecodersBits) {
  model::testing::TemporaryDirectory directory;
  directory.CopyModel("llama2");
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    SetTensor(directory, absl::StrCat(layer, "self_attn.o_proj.weight"), [] { return 0.0f; });
    SetTensor(directory, absl::StrCat(layer, "mlp.down_proj.weight"), [] { return 0.0f; });
  }
  SetTensor(directory, "model.embed_tokens.weight",
            [&] { return static_cast<float>(random() % 7) - 3; });
  SetTensor(directory, "model.norm.weight", [&] { return 1 + normal(random); });
  int row = 0;
  SetTensor(directory, "lm_head.weight", [&] { return row++ < 32 ? 0.0f : normal(random); });
  auto torch = LoadTorch(directory.path(), {ComputeType::kInt8});
  ASSERT_NE(torch, nullptr);
  std::vector<uint32_t> tokens(torch->info().vocabulary_size);
  std::iota(tokens.begin(), tokens.end(), 0);
  EXPECT_EQ(AllLogits(*torch, tokens, 40),
            AllLogits(*LoadDecoder(directory.path(), model::Dtype::kInt8ByRow), tokens, 40));
}

TEST(StepParityTest, GreedyIdsOfTheDemoModelsEqualTheDecoders) {
  for (const char* name : {"target", "draft"}) {
    auto torch = LoadTorch(Demo(name));
    ASSERT_NE(torch, nullptr);
    std::mt19937 random(3);
    const auto tokens = RandomTokens(random, 40, 4096);
    EXPECT_EQ(GreedyIds(*torch, tokens, 64), GreedyIds(*LoadDecoder(Demo(name)), tokens, 64))
        << name;
  }
}

// Whoever has the same id has the same bits; so all that bits depend on is in it.
TEST(StepParityTest, TheNumericsIdNamesEngineVersionTileAndType) {
  LoadOptions options;
  options.library = tandem::testing::BuildPath("lib/libtandem_torch.so");
  options.model.directory = GoldenDirectory("tied");
  options.model.pool_tokens = kPageTokens;
  using model::Dtype;
  for (const auto& [dtype, name] :
       {std::pair(Dtype::kAuto, "fp32"), std::pair(Dtype::kFloat32, "fp32"),
        std::pair(Dtype::kBfloat16, "bf16"), std::pair(Dtype::kFloat16, "fp16"),
        std::pair(Dtype::kInt8, "int8")}) {
    options.model.dtype = dtype;
    options.tile = dtype == Dtype::kAuto ? 0 : 64;
    const auto model = Load(options);
    ASSERT_TRUE(model.ok()) << model.status();
    const std::string tile = dtype == Dtype::kAuto ? "32" : "64";
    EXPECT_THAT((*model)->info().numerics_id,
                AllOf(HasSubstr("torch-2."), HasSubstr("/cpu-"),
                      HasSubstr(absl::StrCat("/tile-", tile, "/", name, "/gather"))));
  }
}

TEST(StepParityTest, WhatIsWrongIsSaid) {
  LoadOptions options;
  options.library = tandem::testing::BuildPath("lib/libtandem_torch.so");
  options.model.directory = "/nowhere";
  EXPECT_TRUE(absl::IsNotFound(Load(options).status()));
  options.model.directory = Demo("draft");
  options.tile = 7;
  EXPECT_TRUE(absl::IsInvalidArgument(Load(options).status())) << Load(options).status();
  // There is no card here, and of CUDA's libraries what LibTorch's processor half needs.
  options.tile = 0;
  options.device = kCuda;
  const absl::Status cuda = Load(options).status();
  if (cuda.ok()) GTEST_SKIP() << "there is a CUDA device";
  EXPECT_TRUE(absl::IsFailedPrecondition(cuda)) << cuda;
  EXPECT_THAT(std::string(cuda.message()), AllOf(HasSubstr("CUDA"), HasSubstr("hint")));
}

}  // namespace
}  // namespace tandem::torch
