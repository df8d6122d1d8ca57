#include "draft_service/ngrams/ngram_derivation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/sampling/distribution.h"
#include "tests/support/table_model.h"

namespace tandem::draft_service::ngram_derivation_test {
namespace {

using testing::TableModel;
using testing::TableModelOptions;

constexpr uint32_t kVocabulary = 40;
const NgramShape kShape = {"model", "tokenizer", kVocabulary, 3, 2, 3};
const std::vector<uint32_t> kBeginning = {7};

std::string PathOf(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/derivation_" + name;
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".partial");
  return path;
}

TableModelOptions Model() { return {.vocabulary_size = kVocabulary + 4, .seed = 9}; }

absl::Status Derive(TableModel& model, const std::string& path) {
  auto derived = BeginNgrams(path, kShape, base::Existing::kReplace);
  TANDEM_CHECK_OK(derived);
  derived->unigrams = NearestTokens(std::vector<double>(kVocabulary, 1), 3);
  uint32_t done = derived->done;
  return DeriveTokens(model,
                      {kBeginning,
                       [&] {
                         EXPECT_GT(derived->done, done);
                         done = derived->done;
                         return SaveNgrams(*derived, path, base::Existing::kReplace);
                       }},
                      *derived);
}

std::string Read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The probabilities that follow a text, of the ids that the file has.
std::vector<double> ProbabilitiesAfter(const TableModel& model, const std::vector<uint32_t>& text) {
  std::vector<float> logits = model.LogitsAfter(text);
  logits.resize(kVocabulary);
  std::vector<double> p;
  for (float logit : logits) p.push_back(std::exp(logit));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& one : p) one /= sum;
  return p;
}

TEST(NgramDerivation, IsWhatTheModelSays) {
  const std::string path = PathOf("says");
  TableModel model(Model());
  ASSERT_TRUE(Derive(model, path).ok());
  EXPECT_EQ(model.live_caches(), 0);
  const auto table = ExtendedTable(*ReadNgrams(path, "tokenizer"));
  for (uint32_t token = 0; token < kVocabulary; ++token) {
    const std::vector<double> p = ProbabilitiesAfter(model, {kBeginning[0], token});
    std::vector<uint32_t> ids(kVocabulary);
    std::iota(ids.begin(), ids.end(), 0U);
    std::stable_sort(ids.begin(), ids.end(), [&](uint32_t a, uint32_t b) { return p[a] > p[b]; });
    for (size_t rank = 0; rank < 3; ++rank) {
      const Successor successor = table->After(token)[rank];
      ASSERT_EQ(successor.token, ids[rank]) << token << " " << rank;
      ASSERT_NEAR(successor.weight / std::exp2(31), p[ids[rank]], 1e-6);
      // TableModel looks at two tokens.
      const auto most_likely = [&model](uint32_t a, uint32_t b) {
        return sampling::ArgMax(model.LogitsAfter({a, b}), kVocabulary);
      };
      const uint32_t next = most_likely(token, successor.token);
      ASSERT_THAT(table->Continuation(token, rank),
                  ::testing::ElementsAre(next, most_likely(successor.token, next)));
    }
  }
}

TEST(NgramDerivation, NeitherBatchNorInterruptionChangesIt) {
  const std::string at_once = PathOf("at_once"), path = PathOf("interrupted");
  TableModel model(Model());
  ASSERT_TRUE(Derive(model, at_once).ok());
  for (int stop_after : {3, 25, 40, 1'000'000}) {
    TableModelOptions options = Model();
    options.max_rows = 9;  // four tokens a batch, with what they begin with
    int passes = 0;
    options.before_pass = [&](absl::Span<const model::ForwardPart>) {
      return ++passes > stop_after ? absl::CancelledError("stop") : absl::OkStatus();
    };
    TableModel small(options);
    const absl::Status status = Derive(small, path);
    EXPECT_EQ(status.ok(), stop_after == 1'000'000) << status;
  }
  EXPECT_EQ(Read(path), Read(at_once));
}

TEST(NgramDerivation, TakesTheRoomThatThereIs) {
  const std::string at_once = PathOf("wide"), path = PathOf("narrow");
  TableModel wide(Model());
  ASSERT_TRUE(Derive(wide, at_once).ok());
  TableModelOptions options = Model();
  options.pool_tokens = 24;
  options.page_tokens = 8;  // five tokens need a page: three sequences
  TableModel narrow(options);
  ASSERT_TRUE(Derive(narrow, path).ok());
  EXPECT_EQ(Read(path), Read(at_once));
  options.pool_tokens = 4;
  options.page_tokens = 1;
  TableModel none(options);
  EXPECT_TRUE(absl::IsResourceExhausted(Derive(none, PathOf("none"))));
  options = Model();
  options.context_length = 4;
  TableModel brief(options);
  EXPECT_TRUE(absl::IsInvalidArgument(Derive(brief, PathOf("brief"))));
}

TEST(NgramDerivation, NearestTokens) {
  const std::vector<Successor> nearest = NearestTokens({5, 2, 4, 2, 60}, 5);
  std::vector<uint32_t> ids;
  for (const Successor& one : nearest) ids.push_back(one.token);
  EXPECT_THAT(ids, ::testing::ElementsAre(1, 3, 2, 0, 4));
  EXPECT_EQ(nearest[0].weight, nearest[1].weight);
  EXPECT_NEAR(1.0 * nearest[2].weight / nearest[0].weight, std::exp(-2), 1e-6);
  EXPECT_EQ(nearest[4].weight, 1u) << "none is 0";
}

}  // namespace
}  // namespace tandem::draft_service::ngram_derivation_test
