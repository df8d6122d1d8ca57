// LibTorch's step against the decoder of model/ and against transformers. Each TEST takes all
// models: loading LibTorch costs more than they do.
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/files/safetensors.h"
#include "tests/model/support.h"
#include "tests/support/json.h"
#include "tests/torch/step_support.h"
#include "torch/spec_check.h"

namespace tandem::torch {
namespace {

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

TEST(StepParityTest, LogitsEqualTheDecodersAndTransformers) {
  int computed = 0;
  for (const std::string& variant : GoldenVariants()) {
    const std::string directory = GoldenDirectory(variant);
    const auto config = model::ReadConfig(directory);
    ASSERT_TRUE(config.ok()) << config.status();
    if (!CheckSpec(config->spec).ok()) continue;  // refused by name (spec_check_test.cc)
    ++computed;
    auto torch = LoadTorch(directory);
    ASSERT_NE(torch, nullptr) << variant;
    auto decoder = model::Load({.directory = directory});
    ASSERT_TRUE(decoder.ok()) << decoder.status();
    EXPECT_EQ(torch->info().model_id, (*decoder)->info().model_id);
    EXPECT_EQ(torch->info().eos_token_ids, (*decoder)->info().eos_token_ids);
    const size_t vocabulary = torch->info().vocabulary_size;
    ASSERT_EQ(vocabulary, (*decoder)->info().vocabulary_size);
    auto goldens = model::SafetensorsFile::Open(directory + "/golden.safetensors");
    ASSERT_TRUE(goldens.ok()) << goldens.status();
    const base::JsonValue golden = model::testing::ReadJson(directory + "/golden.json");
    for (const base::JsonValue& sequence : golden["sequences"].Elements()) {
      const auto tokens = tandem::testing::IdsOf(sequence["tokens"]);
      const auto& view = (*goldens)->tensors().at(sequence["logits"].String().value());
      std::vector<float> wanted(tokens.size() * vocabulary);
      ASSERT_EQ(view.bytes, wanted.size() * sizeof(float));
      std::memcpy(wanted.data(), view.data, view.bytes);
      const auto rows = AllLogits(*torch, tokens, 48);
      const auto own = AllLogits(**decoder, tokens, 48);
      ASSERT_EQ(rows.size(), tokens.size());
      for (size_t row = 0; row < rows.size(); ++row) {
        ASSERT_LT(RelativeDeviation(rows[row], {&wanted[row * vocabulary], vocabulary}), kTolerance)
            << variant << ", row " << row;
        ASSERT_LT(RelativeDeviation(rows[row], own[row]), kTolerance) << variant << ", row " << row;
      }
    }
  }
  EXPECT_GE(computed, 8);
}

// Sixteen bits round: far from equal, and far from wrong.
TEST(StepParityTest, SixteenBitsAreNear) {
  for (const auto& [type, tolerance] :
       {std::pair(ComputeType::kBfloat16, 0.2), std::pair(ComputeType::kFloat16, 0.03)}) {
    for (const char* variant : {"llama2", "biases", "bf16"}) {
      auto torch = LoadTorch(GoldenDirectory(variant), {type});
      ASSERT_NE(torch, nullptr);
      auto decoder = *model::Load({.directory = GoldenDirectory(variant)});
      std::mt19937 random(2);
      const auto tokens = RandomTokens(random, 40, torch->info().vocabulary_size);
      const auto rows = AllLogits(*torch, tokens, 48);
      const auto wanted = AllLogits(*decoder, tokens, 48);
      double largest = 0;
      for (size_t row = 0; row < rows.size(); ++row) {
        largest = std::max(largest, RelativeDeviation(rows[row], wanted[row]));
      }
      EXPECT_LT(largest, tolerance) << variant;
      EXPECT_GT(largest, kTolerance) << variant << ": nothing was rounded";
    }
  }
}

TEST(StepParityTest, GreedyIdsOfTheDemoModelsEqualTheDecoders) {
  for (const char* name : {"target", "draft"}) {
    auto torch = LoadTorch(Demo(name));
    ASSERT_NE(torch, nullptr);
    auto decoder = *model::Load({.directory = Demo(name)});
    std::mt19937 random(3);
    const auto tokens = RandomTokens(random, 40, 4096);
    EXPECT_EQ(GreedyIds(*torch, tokens, 64), GreedyIds(*decoder, tokens, 64)) << name;
  }
}

// Whoever has the same id has the same bits; so all that bits depend on is in it.
TEST(StepParityTest, TheNumericsIdNamesEngineVersionTileAndType) {
  const std::string directory = GoldenDirectory("tied");
  EXPECT_THAT(LoadTorch(directory)->info().numerics_id,
              AllOf(HasSubstr("torch-2."), HasSubstr("/cpu-"), HasSubstr("/tile-32/fp32/gather")));
  EXPECT_THAT(LoadTorch(directory, {ComputeType::kBfloat16, 64})->info().numerics_id,
              HasSubstr("/tile-64/bf16/gather"));
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
