// A pruned model says of its tokens what the whole model says, to the bit, and nothing of others.
#include "model/pruned_output.h"

#include <signal.h>
#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/load.h"
#include "tests/model/files.h"
#include "tests/model/support.h"

namespace tandem::model::pruned_output_test {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryDirectory;
using Tokens = std::vector<uint32_t>;

std::unique_ptr<LanguageModel> LoadDraft(const std::string& directory, int threads = 1) {
  LoadOptions options{.directory = directory, .threads = threads, .pool_tokens = 256};
  options.draft = true;
  auto model = Load(options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

// About half of them, the first and the last now and then.
Tokens Some(std::mt19937& random, uint32_t vocabulary) {
  Tokens tokens;
  for (uint32_t token = 0; token < vocabulary; ++token) {
    if (random() % 2 == 0) tokens.push_back(token);
  }
  if (tokens.empty()) tokens.push_back(0);
  return tokens;
}

void ExpectKeptRows(LanguageModel& pruned, LanguageModel& whole, const Tokens& kept,
                    std::mt19937& random) {
  ASSERT_EQ(pruned.info().vocabulary_size, whole.info().vocabulary_size);
  const Tokens text = testing::RandomTokens(random, 11, whole.info().vocabulary_size);
  const auto rows = testing::AllLogits(pruned, text, 4);
  const auto expected = testing::AllLogits(whole, text, 11);
  ASSERT_EQ(rows.size(), expected.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<float> masked(expected[i].size(), -INFINITY);
    for (const uint32_t token : kept) masked[token] = expected[i][token];
    EXPECT_TRUE(testing::SameBits(rows[i], masked)) << "row " << i;
  }
}

class FamiliesTest : public ::testing::TestWithParam<std::string> {};

// Tied and not, with wrapped names, several files, biases, scaled logits.
TEST_P(FamiliesTest, KeptRowsAreTheWholeModels) {
  const std::string directory = testing::GoldenDirectory(GetParam());
  TemporaryDirectory folder;
  const auto config = ReadConfig(directory);
  ASSERT_TRUE(config.ok()) << config.status();
  std::mt19937 random(5);
  const Tokens kept = Some(random, static_cast<uint32_t>(config->spec.vocabulary_size));
  const std::string out = folder.path() + "/pruned";
  const absl::Status written = WritePruned(directory, kept, out, nullptr);
  const base::JsonValue json = testing::ReadJson(directory + "/config.json");
  if (!written.ok()) {
    EXPECT_TRUE(json["text_config"].IsObject() || config->int8_weights ||
                config->family->name == "gpt2" || config->family->name == "opt" ||
                config->family->name == "gpt_neox")
        << written;
    EXPECT_THAT(std::string(written.message()),
                ::testing::AnyOf(HasSubstr("text_config"), HasSubstr("int8"),
                                 HasSubstr("draft_vocab_size")));
    EXPECT_FALSE(fs::exists(out));
    return;
  }
  const auto whole = LoadDraft(directory), pruned = LoadDraft(out, 2);
  ASSERT_TRUE(whole != nullptr && pruned != nullptr);
  ExpectKeptRows(*pruned, *whole, kept, random);
}
INSTANTIATE_TEST_SUITE_P(Goldens, FamiliesTest, ::testing::ValuesIn(testing::GoldenVariants()),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = std::isalnum(c) ? c : '_';
                           return name;
                         });

TEST(PrunedOutput, GreedyIdsAreTheLikeliestThatAreKept) {
  const std::string directory = tandem::testing::SourcePath("demo/draft");
  TemporaryDirectory folder;
  const std::string out = folder.path() + "/pruned";
  Tokens kept(2048);
  for (uint32_t i = 0; i < kept.size(); ++i) kept[i] = 2 * i;
  int64_t last = 0, all = 0;
  ASSERT_TRUE(WritePruned(directory, kept, out, [&](int64_t done, int64_t of) {
                EXPECT_LE(last, done);
                last = done;
                all = of;
              }).ok());
  EXPECT_EQ(last, all);
  EXPECT_GT(all, 0);
  EXPECT_TRUE(fs::exists(out + "/tokenizer.json"));
  const auto whole = LoadDraft(directory), pruned = LoadDraft(out);
  ASSERT_TRUE(whole != nullptr && pruned != nullptr);
  EXPECT_NE(whole->info().model_id, pruned->info().model_id);
  Tokens text = {17, 1001, 4095, 5};
  for (const uint32_t token : testing::GreedyIds(*pruned, text, 12)) {
    std::vector<float> logits = testing::AllLogits(*whole, text, 64).back();
    for (size_t i = 1; i < logits.size(); i += 2) logits[i] = -INFINITY;
    EXPECT_EQ(token, testing::Greedy(logits));
    text.push_back(token);
  }
}

std::string Refusal(const std::string& directory, bool draft) {
  LoadOptions options{.directory = directory, .pool_tokens = 256};
  options.draft = draft;
  return std::string(Load(options).status().message());
}

TEST(PrunedOutput, IsADraftAlone) {
  const std::string directory = tandem::testing::SourcePath("demo/draft");
  TemporaryDirectory folder;
  const std::string out = folder.path() + "/pruned";
  ASSERT_TRUE(WritePruned(directory, {1, 5, 9}, out, nullptr).ok());
  EXPECT_THAT(Refusal(out, false),
              AllOf(HasSubstr(out), HasSubstr("pruned to 3 of 4096 tokens (draft_vocab_size"),
                    HasSubstr("serves as a draft")));
  EXPECT_EQ(Refusal(out, true), "");
  EXPECT_EQ(WritePruned(directory, {1}, out, nullptr).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(WritePruned(directory, {1}, out + "/", nullptr).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(WritePruned(out, {1}, out + "2", nullptr).message()),
              HasSubstr("was pruned to 3 of 4096"));
  for (const Tokens& tokens : {Tokens{}, Tokens{7, 4096}}) {
    EXPECT_THAT(std::string(WritePruned(directory, tokens, out + "2", nullptr).message()),
                HasSubstr("the model has 4096: keep at least one"));
  }
}

// What lies beside the name stays, and nothing is left of a directory that failed.
TEST(PrunedOutput, NothingOfOthersIsTouched) {
  const std::string directory = tandem::testing::SourcePath("demo/draft");
  TemporaryDirectory folder;
  const std::string out = folder.path() + "/pruned";
  std::filesystem::create_directory(out + ".partial");
  testing::WriteBytes(out + ".partial/diary", "precious");
  EXPECT_TRUE(WritePruned(directory, {1, 5, 9}, out + "/", nullptr).ok());
  EXPECT_EQ(testing::ReadBytes(out + ".partial/diary"), "precious");
  for (const char* target : {"nowhere", "pruned"}) {
    std::filesystem::create_symlink(target, folder.file("link"));
    EXPECT_EQ(CheckPrunedOutput(folder.file("link")).code(), absl::StatusCode::kAlreadyExists);
    std::filesystem::remove(folder.file("link"));
  }
  EXPECT_EQ(CheckPrunedOutput(folder.file("no/such")).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CheckPrunedOutput("/dev/full").code(), absl::StatusCode::kAlreadyExists);

  // Too few bytes are left of the limit of a file's size.
  rlimit whole{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &whole), 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 16, whole.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = WritePruned(directory, {1, 5, 9}, folder.file("other"), nullptr);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &whole), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(": File too large"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()),
                          std::filesystem::directory_iterator()),
            2);
}

TEST(PrunedOutput, ADamagedOneIsRefusedByName) {
  const std::string directory = tandem::testing::SourcePath("demo/draft");
  TemporaryDirectory folder;
  const std::string out = folder.path() + "/pruned";
  ASSERT_TRUE(WritePruned(directory, {1, 5, 9}, out, nullptr).ok());
  const std::string weights = testing::ReadBytes(out + "/model.safetensors");
  const std::string config = testing::ReadBytes(out + "/config.json");
  uint64_t header = 0;
  std::memcpy(&header, weights.data(), 8);
  for (const int64_t offset : {int64_t{-2}, int64_t{4094}, INT64_MAX, INT64_MIN}) {
    std::string wrong = weights;
    std::memcpy(wrong.data() + 8 + header + 16, &offset, 8);  // of the last row: d2t stands first
    testing::WriteBytes(out + "/model.safetensors", wrong);
    EXPECT_THAT(Refusal(out, true),
                HasSubstr("d2t makes row 2 token 2 + " + std::to_string(offset)));
  }
  testing::WriteBytes(out + "/model.safetensors", weights);
  const auto replace = [&](const std::string& from, const std::string& to) {
    std::string changed = config;
    changed.replace(changed.find(from), from.size(), to);
    testing::WriteBytes(out + "/config.json", changed);
    return Refusal(out, true);
  };
  EXPECT_THAT(replace("\"draft_vocab_size\": 3", "\"draft_vocab_size\": 4"),
              AllOf(HasSubstr("d2t is I64 [3], config.json makes it I64 [4]"),
                    HasSubstr("lm_head.weight is [3, 128]")));
  EXPECT_THAT(replace("\"draft_vocab_size\": 3", "\"draft_vocab_size\": 5000"),
              HasSubstr("draft_vocab_size"));
  EXPECT_THAT(replace("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"),
              HasSubstr("must be false where draft_vocab_size is given"));
  // What has the field and does not say of which model is a head of EAGLE-3, most likely.
  EXPECT_THAT(replace("pruned_vocabulary_of", "another_field"), HasSubstr("draft_vocab_size"));
}

}  // namespace
}  // namespace tandem::model::pruned_output_test
