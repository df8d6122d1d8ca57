// Passes of trees: a row has the bits of the chain of its ancestors; one path of a tree stays as if
// it had been computed alone.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/support.h"
#include "tests/model/trees.h"

namespace tandem::model::testing::tree_test {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Decoder> Model(const std::string& variant, int threads = 1,
                               const cpu::Kernels* kernels = nullptr) {
  DecoderOptions options;
  options.threads = threads;
  options.pool_tokens = 8 * 512;
  options.kernels = kernels;
  return MakeDecoder(GoldenDirectory(variant), options);
}

class Trees : public ::testing::TestWithParam<const char*> {};

// Random trees after prefixes of several lengths, beside a chain: each row against its path alone.
TEST_P(Trees, ARowHasTheBitsOfItsPathAloneOnEveryPathOfTheCode) {
  auto plain = Model(GetParam());
  std::vector<std::unique_ptr<Decoder>> models;
  models.push_back(Model(GetParam(), 3));
  for (const cpu::Kernels* kernels : cpu::SupportedKernels()) {
    models.push_back(Model(GetParam(), 1, kernels));
  }
  std::mt19937 random(1);
  const uint32_t vocabulary = plain->info().vocabulary_size;
  for (int trial = 0; trial < 12; ++trial) {
    const std::vector<int> parents = RandomTree(random, 1 + static_cast<int>(random() % 20));
    const auto held = RandomTokens(random, trial == 0 ? 0 : trial * 2, vocabulary);
    const auto tokens = RandomTokens(random, static_cast<int>(parents.size()), vocabulary);
    const auto other = RandomTokens(random, 5, vocabulary);
    std::vector<std::vector<float>> wanted;
    for (size_t row = 0; row < tokens.size(); ++row) {
      wanted.push_back(AllLogits(*plain, PathTokens(held, tokens, parents, row), 64).back());
    }
    const auto wanted_of_other = AllLogits(*plain, other, 64);
    for (const auto& model : models) {
      auto cache = *model->NewCache(64);
      auto cache_of_other = *model->NewCache(64);
      if (!held.empty()) {
        ASSERT_TRUE(model->Forward({{cache.get(), held, 0}}).ok());
      }
      auto logits =
          model->Forward({{cache_of_other.get(), other, 0}, {cache.get(), tokens, 0, parents}});
      ASSERT_TRUE(logits.ok()) << logits.status();
      for (int row = 0; row < logits->rows; ++row) {
        const auto& want = row < 5 ? wanted_of_other[row] : wanted[row - 5];
        ASSERT_TRUE(SameBits(logits->row(row), want)) << "trial " << trial << " row " << row;
      }
    }
  }
}

// A tree that comes in several parts has the bits of the tree that comes in one; a path of it
// stays.
TEST_P(Trees, ATreeMayGrowOverSeveralParts) {
  auto plain = Model(GetParam());
  auto model = Model(GetParam(), 2);
  std::mt19937 random(7);
  const uint32_t vocabulary = plain->info().vocabulary_size;
  for (int trial = 0; trial < 10; ++trial) {
    const std::vector<int> parents = RandomTree(random, 3 + static_cast<int>(random() % 14));
    auto held = RandomTokens(random, trial * 3, vocabulary);
    const auto tokens = RandomTokens(random, static_cast<int>(parents.size()), vocabulary);
    auto cache = *model->NewCache(64);
    if (!held.empty()) {
      ASSERT_TRUE(model->Forward({{cache.get(), held, 0}}).ok());
      cache->Keep({});  // what was fed so far is not a part of the tree
      ASSERT_TRUE(model->Forward({{cache.get(), held, 0}}).ok());
    }
    for (size_t at = 0; at < tokens.size();) {
      const size_t count = std::min<size_t>(1 + random() % 4, tokens.size() - at);
      ForwardPart part{cache.get(), absl::MakeConstSpan(tokens).subspan(at, count), 0,
                       absl::MakeConstSpan(parents).subspan(at, count)};
      part.grows = at > 0;
      const auto logits = model->Forward({part});
      ASSERT_TRUE(logits.ok()) << logits.status();
      for (size_t i = 0; i < count; ++i) {
        const auto text = PathTokens(held, tokens, parents, at + i);
        ASSERT_TRUE(SameBits(logits->row(static_cast<int>(i)), AllLogits(*plain, text, 64).back()))
            << trial << " row " << at + i;
      }
      at += count;
    }
    const std::vector<int> path = PathTo(parents, static_cast<int>(random() % parents.size()));
    cache->Keep(path);
    for (int row : path) held.push_back(tokens[row]);
    EXPECT_EQ(cache->length(), static_cast<int>(held.size()));
    const auto more = RandomTokens(random, 2, vocabulary);
    held.insert(held.end(), more.begin(), more.end());
    const auto logits = model->Forward({{cache.get(), more, 0}});
    ASSERT_TRUE(logits.ok()) << logits.status();
    EXPECT_TRUE(SameBits(logits->row(1), AllLogits(*plain, held, 64).back()));
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, Trees,
                         ::testing::Values("llama2", "gqa_odd", "llama3", "head_dim", "bf16"));

// Across the border of two pages, with rows that move from one to the other.
TEST(TreesOfLongTexts, AKeptPathGoesOnAsIfItHadBeenSteppedAlone) {
  auto model = Model("llama3");
  std::mt19937 random(2);
  const uint32_t vocabulary = model->info().vocabulary_size;
  const std::vector<int> parents = {-1, -1, 0, 1, 1, 4, 2, 5, 7, 8};
  const std::vector<int> path = {1, 4, 5, 7, 8, 9};
  for (int held_tokens : {0, 31, 250, 252, 255, 256}) {
    auto committed = RandomTokens(random, held_tokens, vocabulary);
    const auto tokens = RandomTokens(random, static_cast<int>(parents.size()), vocabulary);
    auto cache = *model->NewCache(512);
    for (int at = 0; at < held_tokens; at += 128) {
      ASSERT_TRUE(
          model->Forward({{cache.get(), absl::MakeSpan(committed).subspan(at, 128), 0}}).ok());
    }
    ASSERT_TRUE(model->Forward({{cache.get(), tokens, 10, parents}}).ok());
    EXPECT_EQ(cache->length(), held_tokens + 10);
    cache->Keep(path);
    EXPECT_EQ(cache->length(), held_tokens + 6);
    for (int row : path) committed.push_back(tokens[row]);
    const auto more = RandomTokens(random, 3, vocabulary);
    auto logits = model->Forward({{cache.get(), more, 0}});
    ASSERT_TRUE(logits.ok()) << logits.status();
    const std::vector<float> last(logits->row(2).begin(), logits->row(2).end());
    committed.insert(committed.end(), more.begin(), more.end());
    EXPECT_EQ(last, AllLogits(*model, committed, 100).back()) << held_tokens;
  }
}

// What a caller may do with the part that it computed last.
TEST(Keep, AnswersForChainsForNothingAndAfterTruncate) {
  auto model = Model("llama2");
  std::mt19937 random(3);
  const auto tokens = RandomTokens(random, 8, model->info().vocabulary_size);
  const absl::Span<const uint32_t> all(tokens);
  auto cache = *model->NewCache(16);
  cache->Keep({});  // before any pass
  ASSERT_TRUE(model->Forward({{cache.get(), all.first(3), 3}}).ok());
  cache->Keep({0, 1});
  EXPECT_EQ(cache->length(), 2);
  cache->Keep({0});  // the part is what was left of it
  EXPECT_EQ(cache->length(), 1);
  const std::vector<int> parents = {-1, 0, 0, 1};
  ASSERT_TRUE(model->Forward({{cache.get(), all.subspan(1, 4), 4, parents}}).ok());
  cache->Keep({});
  EXPECT_EQ(cache->length(), 1);
  // Rolled back to where nothing has branched yet.
  ASSERT_TRUE(model->Forward({{cache.get(), all.subspan(1, 4), 4, parents}}).ok());
  cache->Truncate(3);
  auto logits = model->Forward({{cache.get(), all.subspan(3, 1), 0}});
  ASSERT_TRUE(logits.ok()) << logits.status();
  const std::vector<float> last(logits->row(0).begin(), logits->row(0).end());
  EXPECT_EQ(last, AllLogits(*model, all.first(4), 4).back());
}

TEST(BadTrees, AreRefusedAndChangeNothing) {
  auto model = Model("llama2");
  const std::vector<uint32_t> tokens = {1, 2, 3};
  auto cache = *model->NewCache(16);
  auto status = [&](std::vector<int> parents) {
    return model->Forward({{cache.get(), tokens, 0, parents}}).status();
  };
  for (const auto& [parents, message] : std::vector<std::pair<std::vector<int>, std::string>>{
           {{-1, 0}, "2 parents for 3 tokens"},
           {{-1, 0, 1, 2}, "4 parents for 3 tokens"},
           {{0, 0, 1}, "parents[0] is 0; -1 to -1"},
           {{-1, 1, 0}, "parents[1] is 1; -1 to 0"},
           {{-1, 2, 0}, "parents[1] is 2; -1 to 0"},
           {{-1, 0, -2}, "parents[2] is -2; -1 to 1"}}) {
    EXPECT_EQ(status(parents).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status(parents).message(), HasSubstr("part 0: " + message));
    EXPECT_EQ(cache->length(), 0);
  }
  // Which branch the next token follows would be a guess.
  ASSERT_TRUE(status({-1, 0, 0}).ok());
  EXPECT_THAT(status({}).message(), HasSubstr("part 0: its cache holds a tree"));
  EXPECT_EQ(cache->length(), 3);
  cache->Keep({0, 2});
  EXPECT_TRUE(status({}).ok());
}

TEST(BadTreesDeathTest, WhatIsNoPathIsNotKept) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  auto model = Model("llama2");
  const std::vector<uint32_t> tokens = {1, 2, 3};
  const std::vector<int> parents = {-1, 0, 0};
  auto cache = *model->NewCache(16);
  ASSERT_TRUE(model->Forward({{cache.get(), tokens, 0, parents}}).ok());
  EXPECT_DEATH(cache->Keep({0, 1, 2}), "from row 1 to 2, whose parent is 0");
  EXPECT_DEATH(cache->Keep({1}), "from row -1 to 1, whose parent is 0");
  EXPECT_DEATH(cache->Keep({0, 3}), "row 3 after 0 in a path through 3 rows");
  cache->Truncate(2);
  EXPECT_DEATH(cache->Keep({0, 2}), "row 2 after 0 in a path through 2 rows");
}

}  // namespace
}  // namespace tandem::model::testing::tree_test
