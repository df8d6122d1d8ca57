// A row's logits are the same bits in any company, at any place of a pass, in any cut into passes,
// after any roll-back, and in a tree as in its chain.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/support.h"
#include "tests/model/trees.h"
#include "tests/torch/step_support.h"

namespace tandem::torch {
namespace {

using model::Cache;
using model::ForwardPart;
using model::LanguageModel;
using model::testing::AllLogits;
using model::testing::GoldenDirectory;
using model::testing::RandomTokens;
using model::testing::SameBits;

constexpr int kLength = 40;

void ExpectChunksEqual(LanguageModel& model, int length = kLength) {
  std::mt19937 random(1);
  const auto tokens = RandomTokens(random, length, model.info().vocabulary_size);
  const auto wanted = AllLogits(model, tokens, 1);
  for (int chunk : {3, 17, length}) {
    const auto rows = AllLogits(model, tokens, chunk);
    for (size_t row = 0; row < rows.size(); ++row) {
      ASSERT_TRUE(SameBits(rows[row], wanted[row])) << "chunks of " << chunk << ", row " << row;
    }
  }
}

struct Sequence {
  std::vector<uint32_t> tokens;
  std::vector<std::vector<float>> wanted;
  std::unique_ptr<Cache> cache;
};

// Prefill, decode and verify parts of many sequences in random orders, with roll-backs.
void ExpectCompanyIsNotSeen(LanguageModel& model, size_t count = 6, int length = kLength) {
  std::mt19937 random(2);
  std::vector<Sequence> sequences(count);
  for (Sequence& sequence : sequences) {
    sequence.tokens = RandomTokens(random, length, model.info().vocabulary_size);
    sequence.wanted = AllLogits(model, sequence.tokens, 1);
    sequence.cache = *model.NewCache(length);
  }
  size_t compared = 0;
  for (int pass = 0; pass < 8; ++pass) {
    std::vector<Sequence*> order;
    for (Sequence& sequence : sequences) {
      if (sequence.cache->length() < length) order.push_back(&sequence);
    }
    std::shuffle(order.begin(), order.end(), random);
    std::vector<ForwardPart> parts;
    for (Sequence* sequence : order) {
      const int at = sequence->cache->length();
      const int rows = std::min<int>(length - at, random() % 4 == 0 ? 12 : 1 + random() % 5);
      parts.push_back(
          {sequence->cache.get(), absl::MakeSpan(sequence->tokens).subspan(at, rows), 0});
    }
    auto logits = model.Forward(parts);
    ASSERT_TRUE(logits.ok()) << logits.status();
    int row = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const int rows = static_cast<int>(parts[i].tokens.size());
      const int first = order[i]->cache->length() - rows;
      for (int at = 0; at < rows; ++at, ++row, ++compared) {
        ASSERT_TRUE(SameBits(logits->row(row), order[i]->wanted[first + at]))
            << "pass " << pass << ", row " << row;
      }
      order[i]->cache->Truncate(first + 1 + static_cast<int>(random() % rows));
    }
  }
  EXPECT_GT(compared, count * static_cast<size_t>(length) * 5 / 12);
}

// Trees of one model, and what is kept of them.
void ExpectTreesEqualChains(LanguageModel& model) {
  const uint32_t vocabulary = model.info().vocabulary_size;
  std::mt19937 random(5);
  for (int trial = 0; trial < 2; ++trial) {
    const auto text = RandomTokens(random, 9, vocabulary);
    const std::vector<int> parents = model::testing::RandomTree(random, 14);
    const auto tokens = RandomTokens(random, 14, vocabulary);
    auto cache = *model.NewCache(40);
    ASSERT_TRUE(model.Forward({{cache.get(), text, 9}}).ok());
    auto logits = model.Forward({{cache.get(), tokens, 0, parents}});
    ASSERT_TRUE(logits.ok()) << logits.status();
    std::vector<std::vector<float>> rows;
    for (int row = 0; row < logits->rows; ++row) {
      rows.emplace_back(logits->row(row).begin(), logits->row(row).end());
    }
    std::vector<int> kept;
    for (int row = 0; row < static_cast<int>(rows.size()); ++row) {
      const std::vector<int> path = model::testing::PathTo(parents, row);
      std::vector<uint32_t> chain = text;
      for (int node : path) chain.push_back(tokens[node]);
      ASSERT_TRUE(SameBits(rows[row], AllLogits(model, chain, 7).back())) << "row " << row;
      if (path.size() > kept.size()) kept = path;
    }
    // The path that is kept is a chain from then on.
    cache->Keep(kept);
    std::vector<uint32_t> chain = text;
    for (int node : kept) chain.push_back(tokens[node]);
    chain.push_back(3);
    const std::vector<uint32_t> next = {3};
    logits = model.Forward({{cache.get(), next, 0}});
    ASSERT_TRUE(logits.ok()) << logits.status();
    const std::vector<float> row(logits->row(0).begin(), logits->row(0).end());
    ASSERT_TRUE(SameBits(row, AllLogits(model, chain, 40).back()));
  }
}

TEST(StepInvarianceTest, NeitherCompanyNorPlaceNorCutIsSeen) {
  const std::pair<const char*, Held> models[] = {
      {"gqa_odd", {ComputeType::kFloat32, 32, 1}}, {"biases", {ComputeType::kFloat32, 192, 1}},
      {"llama2", {ComputeType::kFloat32, 32, 2}},  {"gqa_odd", {ComputeType::kBfloat16, 32, 1}},
      {"biases", {ComputeType::kFloat16, 64, 1}},  {"tied", {ComputeType::kInt8, 32, 2}}};
  for (const auto& [variant, held] : models) {
    SCOPED_TRACE(::testing::Message() << variant << ", tile " << held.tile << ", threads "
                                      << held.threads << ", type " << static_cast<int>(held.type));
    auto model = LoadTorch(GoldenDirectory(variant), held);
    ASSERT_NE(model, nullptr);
    // Bits may depend on the threads of products.
    EXPECT_THAT(model->info().numerics_id,
                ::testing::EndsWith(absl::StrCat("/threads-", held.threads)));
    ExpectChunksEqual(*model);
    ExpectCompanyIsNotSeen(*model);
  }
}

TEST(StepInvarianceTest, NorInAnyFamily) {
  int number = 0;
  for (const std::string& family : model::testing::FamilyVariants()) {
    SCOPED_TRACE(family);
    const bool even = number++ % 2 == 0;
    auto model = LoadTorch(GoldenDirectory(family),
                           {even ? ComputeType::kFloat32 : ComputeType::kBfloat16, 32, 1});
    ASSERT_NE(model, nullptr);
    ExpectChunksEqual(*model, 20);
    ExpectCompanyIsNotSeen(*model, 3, 20);
    ExpectTreesEqualChains(*model);
  }
}

// The same on matrices that are large enough for every path of the library.
TEST(StepInvarianceTest, NorOnTheDemoTarget) {
  auto model = LoadTorch(tandem::testing::SourcePath("demo/target"));
  ASSERT_NE(model, nullptr);
  ExpectChunksEqual(*model);
}

// A page holds 256 cells: rows that see several, in pages that held another sequence before.
TEST(StepInvarianceTest, NorAreEarlierSequencesOfTheSamePages) {
  auto model = LoadTorch(GoldenDirectory("llama3"));
  ASSERT_NE(model, nullptr);
  std::mt19937 random(4);
  const uint32_t vocabulary = model->info().vocabulary_size;
  const auto tokens = RandomTokens(random, 300, vocabulary);
  const auto wanted = AllLogits(*model, tokens, 64);
  AllLogits(*model, RandomTokens(random, 500, vocabulary), 250);
  EXPECT_EQ(AllLogits(*model, tokens, 250), wanted);
}

}  // namespace
}  // namespace tandem::torch
