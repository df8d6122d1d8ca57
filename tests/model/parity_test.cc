// Logits against transformers' (golden files) and against the plain reference.
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "gtest/gtest.h"
#include "model/cpu/half.h"
#include "model/files/safetensors.h"
#include "model/reference.h"
#include "tests/model/files.h"
#include "tests/model/support.h"
#include "tests/model/trees.h"
#include "tests/support/json.h"
#include "tests/support/paths.h"

namespace tandem::model::testing {
namespace {

// Relative to the row's largest logit; transformers' own float32 is off by up to 1e-6.
constexpr double kTolerance = 1e-4;

class Parity : public ::testing::TestWithParam<std::string> {};

TEST_P(Parity, LogitsEqualTransformersAndReference) {
  const std::string directory = GoldenDirectory(GetParam());
  auto model = Load({.directory = directory});
  ASSERT_TRUE(model.ok()) << model.status();
  auto reference = Reference::Load(directory);
  ASSERT_TRUE(reference.ok()) << reference.status();
  auto goldens = SafetensorsFile::Open(directory + "/golden.safetensors");
  ASSERT_TRUE(goldens.ok()) << goldens.status();
  const base::JsonValue golden = ReadJson(directory + "/golden.json");
  const size_t vocabulary = (*model)->info().vocabulary_size;
  double largest = 0;
  for (const base::JsonValue& sequence : golden["sequences"].Elements()) {
    auto tokens = tandem::testing::IdsOf(sequence["tokens"]);
    const TensorView& view = (*goldens)->tensors().at(sequence["logits"].String().value());
    ASSERT_EQ(view.bytes, tokens.size() * vocabulary * sizeof(float));
    std::vector<float> wanted(tokens.size() * vocabulary);
    std::memcpy(wanted.data(), view.data, view.bytes);
    std::vector<float> plain = (*reference)->Logits(tokens);
    auto rows = AllLogits(**model, tokens, 256);
    ASSERT_EQ(rows.size(), tokens.size());
    for (size_t row = 0; row < rows.size(); ++row) {
      absl::Span<const float> want(&wanted[row * vocabulary], vocabulary);
      absl::Span<const float> slow(&plain[row * vocabulary], vocabulary);
      ASSERT_LT(RelativeDeviation(rows[row], want), kTolerance) << "row " << row;
      ASSERT_LT(RelativeDeviation(slow, want), kTolerance) << "the reference's row " << row;
      largest = std::max(largest, RelativeDeviation(rows[row], want));
    }
  }
  RecordProperty("largest_relative_deviation", std::to_string(largest));
  std::cout << GetParam() << ": largest relative deviation " << largest << std::endl;
}

// A tree after some text, all rows in one pass, against the reference that sees the same tree.
TEST_P(Parity, TreesEqualTheReferences) {
  const std::string directory = GoldenDirectory(GetParam());
  auto model = Load({.directory = directory});
  ASSERT_TRUE(model.ok()) << model.status();
  auto reference = Reference::Load(directory);
  ASSERT_TRUE(reference.ok()) << reference.status();
  const size_t vocabulary = (*model)->info().vocabulary_size;
  std::mt19937 random(10);
  for (int trial = 0; trial < 5; ++trial) {
    std::vector<int> parents = {-1, 0, 1, 2, 3};  // the text, then branches from its end on
    for (int parent : RandomTree(random, 12)) parents.push_back(parent + 5);
    auto tokens =
        RandomTokens(random, static_cast<int>(parents.size()), static_cast<uint32_t>(vocabulary));
    const std::vector<float> wanted = (*reference)->Logits(tokens, parents);
    auto cache = *(*model)->NewCache(20);
    auto logits = (*model)->Forward({{cache.get(), tokens, 0, parents}});
    ASSERT_TRUE(logits.ok()) << logits.status();
    for (int row = 0; row < logits->rows; ++row) {
      absl::Span<const float> want(&wanted[row * vocabulary], vocabulary);
      ASSERT_LT(RelativeDeviation(logits->row(row), want), kTolerance) << "row " << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Parity, ::testing::ValuesIn(GoldenVariants()));

// Held as bf16 a model is the one whose matrices were rounded: the reference reads a copy of the
// directory with rounded matrices (norms and biases are left alone).
void CopyRounded(const std::string& from, const TemporaryDirectory& to) {
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename().string();
    std::string bytes = ReadBytes(entry.path().string());
    if (entry.path().extension() == ".safetensors" && name != "golden.safetensors") {
      uint64_t length = 0;
      std::memcpy(&length, bytes.data(), 8);
      const base::JsonValue header = tandem::testing::ParseJson(bytes.substr(8, length));
      for (const auto& [tensor, about] : header.Members()) {
        if (tensor == "__metadata__" || about["shape"].size() != 2) continue;
        ASSERT_EQ(about["dtype"].String(), "F32");
        const auto offsets = tandem::testing::IdsOf(about["data_offsets"]);
        for (size_t at = offsets.at(0); at < offsets.at(1); at += 4) {
          float value;
          std::memcpy(&value, &bytes[8 + length + at], 4);
          value = cpu::FromBfloat16(cpu::ToBfloat16(value));
          std::memcpy(&bytes[8 + length + at], &value, 4);
        }
      }
    }
    WriteBytes(to.file(name), bytes);
  }
}

class Rounded : public ::testing::TestWithParam<const char*> {};

TEST_P(Rounded, LogitsEqualTheReferencesWithRoundedWeights) {
  const std::string directory = GoldenDirectory(GetParam());
  TemporaryDirectory copy;
  CopyRounded(directory, copy);
  auto model = Load({.directory = directory, .dtype = Dtype::kBfloat16});
  ASSERT_TRUE(model.ok()) << model.status();
  auto reference = Reference::Load(copy.path());
  ASSERT_TRUE(reference.ok()) << reference.status();
  auto unrounded = Reference::Load(directory);
  ASSERT_TRUE(unrounded.ok()) << unrounded.status();
  const size_t vocabulary = (*model)->info().vocabulary_size;
  std::mt19937 random(8);
  auto tokens = RandomTokens(random, 50, static_cast<uint32_t>(vocabulary));
  const std::vector<float> wanted = (*reference)->Logits(tokens);
  const std::vector<float> other = (*unrounded)->Logits(tokens);
  auto rows = AllLogits(**model, tokens, 16);
  double min_other = INFINITY;
  for (size_t row = 0; row < rows.size(); ++row) {
    const size_t first = row * vocabulary;
    ASSERT_LT(RelativeDeviation(rows[row], {&wanted[first], vocabulary}), kTolerance) << row;
    min_other = std::min(min_other, RelativeDeviation(rows[row], {&other[first], vocabulary}));
  }
  // Rounding is not a small thing beside the tolerance: the test can tell the two apart.
  EXPECT_GT(min_other, 2 * kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Variants, Rounded,
                         ::testing::Values("llama2", "tied", "gqa_odd", "llama3", "head_dim",
                                           "biases", "sharded", "padded"));

TEST(Goldens, AreThere) { EXPECT_GE(GoldenVariants().size(), 11u); }

class Stories : public ::testing::TestWithParam<const char*> {};

TEST_P(Stories, GreedyIdsEqualTheGoldenOnes) {
  const std::string directory = SharedModel(GetParam());
  const base::JsonValue golden = ReadJson(directory + "/golden_greedy.json");
  if (!golden.IsArray()) GTEST_SKIP() << "no model in " << directory;
  auto model = Load({.directory = directory});
  ASSERT_TRUE(model.ok()) << model.status();
  for (const base::JsonValue& entry : golden.Elements()) {
    auto prompt = tandem::testing::IdsOf(entry["prompt_ids"]);
    auto wanted = tandem::testing::IdsOf(entry["greedy_ids"]);
    EXPECT_EQ(GreedyIds(**model, prompt, static_cast<int>(wanted.size())), wanted);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Stories,
                         ::testing::Values("stories260k-hf", "stories260k-hf-draft4l"));

// The embedded pair: greedy ids as the reference's argmax over the same text.
class Demo : public ::testing::TestWithParam<const char*> {};

TEST_P(Demo, GreedyIdsEqualTheReferences) {
  const std::string directory = tandem::testing::SourcePath("demo/") + GetParam();
  if (!std::ifstream(directory + "/config.json")) GTEST_SKIP() << "no model in " << directory;
  auto model = Load({.directory = directory, .threads = 2});
  ASSERT_TRUE(model.ok()) << model.status();
  auto reference = Reference::Load(directory);
  ASSERT_TRUE(reference.ok()) << reference.status();
  std::mt19937 random(7);
  const size_t vocabulary = (*model)->info().vocabulary_size;
  for (int prompt_length : {1, 7, 40}) {
    std::vector<uint32_t> text = RandomTokens(random, prompt_length, 4096);
    std::vector<uint32_t> ids = GreedyIds(**model, text, 64);
    text.insert(text.end(), ids.begin(), ids.end() - 1);
    std::vector<float> logits = (*reference)->Logits(text);
    for (size_t i = 0; i < ids.size(); ++i) {
      const size_t row = prompt_length - 1 + i;
      EXPECT_EQ(ids[i], Greedy({&logits[row * vocabulary], vocabulary})) << "token " << i;
    }
  }
}

TEST_P(Demo, LogitsEqualTheReferencesHoweverHeld) {
  const std::string directory = tandem::testing::SourcePath("demo/") + GetParam();
  if (!std::ifstream(directory + "/config.json")) GTEST_SKIP() << "no model in " << directory;
  auto reference = Reference::Load(directory);
  ASSERT_TRUE(reference.ok()) << reference.status();
  std::mt19937 random(9);
  std::vector<uint32_t> text = RandomTokens(random, 70, 4096);
  const std::vector<float> wanted = (*reference)->Logits(text);
  const size_t vocabulary = static_cast<size_t>((*reference)->vocabulary_size());
  for (Dtype dtype : {Dtype::kAuto, Dtype::kFloat32, Dtype::kBfloat16}) {
    auto model = Load({.directory = directory, .threads = 2, .dtype = dtype});
    ASSERT_TRUE(model.ok()) << model.status();
    auto rows = AllLogits(**model, text, 9);
    for (size_t row = 0; row < rows.size(); ++row) {
      ASSERT_LT(RelativeDeviation(rows[row], {&wanted[row * vocabulary], vocabulary}), kTolerance)
          << DtypeName(dtype) << ", row " << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pair, Demo, ::testing::Values("target", "draft"));

}  // namespace
}  // namespace tandem::model::testing
