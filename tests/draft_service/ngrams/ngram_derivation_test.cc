#include "draft_service/ngrams/ngram_derivation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/sampling/distribution.h"
#include "tests/support/table_model.h"

namespace tandem::draft_service::ngram_derivation_test {
namespace {

using testing::TableModel;
using testing::TableModelOptions;

constexpr uint32_t kVocabulary = 40;
const NgramShape kShape = {"model", "tokenizer", kVocabulary, 3, 2, 3};
const DerivationOptions kAfter = {.beginning = {7}, .contexts = {{7, 3}, {7, 5}, {7, 3, 4}}};

std::string PathOf(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/derivation_" + name;
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".partial");
  return path;
}

TableModelOptions Model() { return {.vocabulary_size = kVocabulary + 4, .seed = 9}; }

absl::Status Derive(model::LanguageModel& model, const std::string& path,
                    DerivationOptions options = kAfter) {
  auto derived = BeginNgrams(path, kShape, base::Existing::kReplace);
  TANDEM_CHECK_OK(derived);
  derived->unigrams = NearestTokens(std::vector<double>(kVocabulary, 1), 3);
  uint32_t done = derived->done;
  options.after_batch = [&] {
    EXPECT_GT(derived->done, done);
    done = derived->done;
    return SaveNgrams(*derived, path, base::Existing::kReplace);
  };
  return DeriveTokens(model, options, *derived);
}

std::string Read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The normalised geometric mean of what follows each of the texts, of the ids that the file has.
std::vector<double> ProbabilitiesAfter(const TableModel& model,
                                       const std::vector<std::vector<uint32_t>>& texts) {
  std::vector<double> mean(kVocabulary, 1);
  for (const std::vector<uint32_t>& text : texts) {
    const std::vector<float> logits = model.LogitsAfter(text);
    for (uint32_t id = 0; id < kVocabulary; ++id) {
      mean[id] *= std::exp(logits[id] / static_cast<double>(texts.size()));
    }
  }
  const double sum = std::accumulate(mean.begin(), mean.end(), 0.0);
  for (double& one : mean) one /= sum;
  return mean;
}

TEST(NgramDerivation, IsWhatTheModelSays) {
  const std::string path = PathOf("says");
  TableModel model(Model());
  ASSERT_TRUE(Derive(model, path).ok());
  EXPECT_EQ(model.live_caches(), 0);
  const auto table = ExtendedTable(*ReadNgrams(path, "tokenizer"));
  for (uint32_t token = 0; token < kVocabulary; ++token) {
    // TableModel looks at two tokens.
    const std::vector<double> p = ProbabilitiesAfter(model, {{3, token}, {5, token}, {4, token}});
    std::vector<uint32_t> ids(kVocabulary);
    std::iota(ids.begin(), ids.end(), 0U);
    std::stable_sort(ids.begin(), ids.end(), [&](uint32_t a, uint32_t b) { return p[a] > p[b]; });
    for (size_t rank = 0; rank < 3; ++rank) {
      const Successor successor = table->After(token)[rank];
      ASSERT_EQ(successor.token, ids[rank]) << token << " " << rank;
      ASSERT_NEAR(successor.weight / std::exp2(31), p[ids[rank]], 1e-6);
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
    options.max_rows = 18;  // four tokens a batch, after three contexts and the beginning
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
  const int64_t wide_passes = wide.passes();
  TableModelOptions options = Model();
  // Four caches: two tokens after each context, and after the beginning two with two steps each.
  options.pool_tokens = 3 * 8 + 8;
  options.page_tokens = 8;
  TableModel narrow(options);
  ASSERT_TRUE(Derive(narrow, path).ok());
  EXPECT_EQ(Read(path), Read(at_once));
  EXPECT_GT(narrow.passes(), wide_passes);
  options = Model();
  options.context_length = 4;  // one token at a time: the beginning, it and two steps
  TableModel one(options);
  ASSERT_TRUE(Derive(one, path).ok());
  EXPECT_EQ(Read(path), Read(at_once));
  options.context_length = 3;
  TableModel brief(options);
  EXPECT_TRUE(absl::IsInvalidArgument(Derive(brief, PathOf("brief"))));
  options = Model();
  options.pool_tokens = 4;
  options.page_tokens = 1;
  TableModel none(options);
  EXPECT_TRUE(absl::IsResourceExhausted(Derive(none, PathOf("none"))));
}

// The caches of a batch take the room that DerivationRoom says, and no more with less of it: not a
// cache per token.
TEST(NgramDerivation, NeedsNoMoreRoomThanItSays) {
  for (const int max_rows : {512, 64, 4}) {
    TableModelOptions options = Model();
    options.max_rows = max_rows;
    options.page_tokens = 256;
    options.pool_tokens = DerivationRoom(kAfter, kShape.continuation, max_rows);
    int64_t caches = 0;
    TableModel* counted = nullptr;
    options.before_pass = [&](absl::Span<const model::ForwardPart>) {
      caches = std::max<int64_t>(caches, counted->live_caches());
      return absl::OkStatus();
    };
    TableModel model(options);
    counted = &model;
    ASSERT_TRUE(Derive(model, PathOf("room")).ok()) << max_rows;
    EXPECT_EQ(caches, 4) << "three contexts and the beginning";
    // Passes are as full as they can be: the first of a batch has four rows for each token.
    const int64_t batches = (kVocabulary + max_rows / 4 - 1) / (max_rows / 4);
    EXPECT_EQ(model.passes(), 4 + batches * (1 + 3 * 2)) << max_rows;
  }
}

// Says 0 after a token that stands alone, whichever it is, as SmolLM2-135M says "-"; after a token
// that follows another one, the next number.
class BlindAlone final : public model::LanguageModel {
 public:
  BlindAlone() : table_({.vocabulary_size = kVocabulary, .peakedness = 0}) {}
  const model::ModelInfo& info() const override { return table_.info(); }
  absl::StatusOr<std::unique_ptr<model::Cache>> NewCache(int max_length) override {
    return table_.NewCache(max_length);
  }
  int max_rows() const override { return table_.max_rows(); }
  absl::StatusOr<model::Logits> Forward(absl::Span<const model::ForwardPart> parts) override {
    logits_.clear();
    for (const model::ForwardPart& part : parts) {
      for (size_t i = part.first_logits_row; i < part.tokens.size(); ++i) {
        std::vector<float> row(kVocabulary, 0);
        const bool alone = part.cache->length() == 0 && !part.grows;
        row[alone ? 0 : (part.tokens[i] + 1) % kVocabulary] = 9;
        logits_.insert(logits_.end(), row.begin(), row.end());
      }
    }
    TANDEM_RETURN_IF_ERROR(table_.Forward(parts).status());
    return model::Logits{logits_.data(), static_cast<int>(logits_.size() / kVocabulary),
                         static_cast<int>(kVocabulary)};
  }

 private:
  TableModel table_;
  std::vector<float> logits_;
};

TEST(NgramDerivation, AModelThatIsBlindWithoutAContextIsAskedWithSome) {
  const auto right = [](const DerivationOptions& options) {
    const std::string path = PathOf("blind");
    BlindAlone model;
    TANDEM_CHECK_OK(Derive(model, path, options));
    const auto table = ExtendedTable(*ReadNgrams(path, "tokenizer"));
    uint32_t count = 0;
    for (uint32_t token = 0; token < kVocabulary; ++token) {
      const uint32_t next = (token + 1) % kVocabulary;
      if (table->After(token)[0].token != next) continue;
      EXPECT_THAT(table->Continuation(token, 0),
                  ::testing::ElementsAre((next + 1) % kVocabulary, (next + 2) % kVocabulary));
      ++count;
    }
    return count;
  };
  EXPECT_EQ(right({.beginning = {}, .contexts = {{1}, {2}}}), kVocabulary);
  EXPECT_EQ(right({.beginning = {}, .contexts = {{}}}), 1U)
      << "alone, as a control: the last token";
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
