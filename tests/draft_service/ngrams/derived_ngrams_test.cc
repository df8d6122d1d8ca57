#include "draft_service/ngrams/derived_ngrams.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "tests/draft_service/drafters/ngram_drafters.h"

namespace tandem::draft_service::derived_ngrams_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Pair = std::pair<uint32_t, uint32_t>;

// Three tokens, two successors each, continuations of two.
const NgramShape kShape = {"model-1", "tokenizer-1", 3, 2, 2, 2};
const std::vector<Successor> kUnigrams = {{1, 9}, {0, 4}};
const std::vector<Successor> kBigrams = {{1, 7}, {2, 3}, {0, 5}, {2, 5}, {2, 2}, {0, 1}};
const std::vector<uint32_t> kContinuations = {0, 1, 1, 1, 2, 0, 0, 0, 1, 2, 2, 2};

std::string PathOf(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/derived_" + name;
  std::filesystem::remove(path);
  std::filesystem::remove(path + ".partial");
  return path;
}

std::unique_ptr<NgramFileWriter> Begin(const std::string& path, const NgramShape& shape = kShape) {
  auto writer = NgramFileWriter::Open(path, shape, base::Existing::kReplace);
  TANDEM_CHECK_OK(writer);
  return *std::move(writer);
}

void WriteTokens(NgramFileWriter& writer, uint32_t first, uint32_t count) {
  TANDEM_CHECK_OK(
      writer.WriteTokens(absl::MakeConstSpan(kBigrams).subspan(first * 2, count * 2),
                         absl::MakeConstSpan(kContinuations).subspan(first * 4, count * 4)));
}

std::string Whole(const std::string& name) {
  const std::string path = PathOf(name);
  auto writer = Begin(path);
  TANDEM_CHECK_OK(writer->WriteUnigrams(kUnigrams));
  WriteTokens(*writer, 0, 3);
  TANDEM_CHECK_OK(writer->Finish());
  return path;
}

std::string Read(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

absl::Status Refusal(const std::string& path, absl::string_view tokenizer_id = "tokenizer-1") {
  const auto file = DerivedNgrams::Open(path, tokenizer_id);
  EXPECT_THAT(std::string(file.status().message()), HasSubstr(path));
  return file.status();
}

std::vector<Pair> Pairs(absl::Span<const Successor> successors) {
  std::vector<Pair> pairs;
  for (const Successor& one : successors) pairs.emplace_back(one.token, one.weight);
  return pairs;
}

TEST(DerivedNgrams, GivesBackWhatWasWritten) {
  const std::string path = Whole("whole");
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  auto file = DerivedNgrams::Open(path, "tokenizer-1");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->shape(), kShape);
  const auto unigrams = UnigramTable(*file), bigrams = BigramTable(*file),
             extended = ExtendedTable(*file);
  file = absl::CancelledError();  // the tables keep it
  std::filesystem::remove(path);
  EXPECT_THAT(Pairs(unigrams->After(2)), ElementsAre(Pair{1, 9}, Pair{0, 4}));
  EXPECT_THAT(Pairs(unigrams->After(77)), ElementsAre(Pair{1, 9}, Pair{0, 4}));
  EXPECT_THAT(Pairs(bigrams->After(1)), ElementsAre(Pair{0, 5}, Pair{2, 5}));
  EXPECT_THAT(bigrams->After(3), IsEmpty());
  EXPECT_THAT(bigrams->Continuation(1, 0), IsEmpty());
  EXPECT_THAT(Pairs(extended->After(2)), ElementsAre(Pair{2, 2}, Pair{0, 1}));
  EXPECT_THAT(extended->Continuation(2, 0), ElementsAre(1, 2));
  EXPECT_THAT(extended->Continuation(2, 1), ElementsAre(2, 2));
  EXPECT_THAT(extended->Continuation(3, 0), IsEmpty());
}

TEST(DerivedNgrams, RefusesWhatIsCut) {
  const std::string path = Whole("cut"), bytes = Read(path);
  for (size_t size = 0; size < bytes.size(); ++size) {
    Write(path, bytes.substr(0, size));
    const absl::Status status = Refusal(path);
    ASSERT_FALSE(status.ok()) << size;
    if (size >= 8 || size == 0) {
      EXPECT_TRUE(absl::IsDataLoss(status)) << size << ": " << status;
    }
  }
  Write(path, bytes + "x");
  EXPECT_THAT(std::string(Refusal(path).message()),
              HasSubstr(absl::StrCat("has ", bytes.size() + 1, " bytes, and its header says ",
                                     bytes.size())));
}

TEST(DerivedNgrams, RefusesWhatIsChanged) {
  const std::string path = Whole("changed"), bytes = Read(path);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    Write(path, changed);
    ASSERT_FALSE(Refusal(path).ok()) << "byte " << i;
  }
  std::string changed = bytes;
  changed.back() = 1;
  Write(path, changed);
  EXPECT_THAT(std::string(Refusal(path).message()), HasSubstr("not what was written"));
}

TEST(DerivedNgrams, RefusesWhatIsSomethingElse) {
  const std::string path = Whole("else"), bytes = Read(path);
  const absl::Status other = Refusal(path, "tokenizer-2");
  EXPECT_TRUE(absl::IsFailedPrecondition(other));
  EXPECT_THAT(std::string(other.message()),
              AllOf(HasSubstr("tokenizer-1"), HasSubstr("tokenizer-2")));
  std::string newer = bytes;
  newer[8] = 2;
  Write(path, newer);
  EXPECT_THAT(std::string(Refusal(path).message()), HasSubstr("has version 2; this reads 1"));
  Write(path, "{\"no\": \"table\"}");
  EXPECT_THAT(std::string(Refusal(path).message()), HasSubstr("is no file of `tandem derive-"));
  EXPECT_TRUE(absl::IsNotFound(Refusal("/nowhere/at/all")));
  EXPECT_THAT(std::string(Refusal(::testing::TempDir()).message()), HasSubstr("no regular file"));
  const std::string begun = PathOf("begun");
  WriteTokens(*Begin(begun), 0, 1);
  EXPECT_THAT(std::string(Refusal(begun + ".partial").message()), HasSubstr("is a part of a file"));
}

// A file with the right hash whose tokens no drafter could use.
TEST(DerivedNgrams, RefusesTokensThatAreNone) {
  const auto refusal = [](std::vector<Successor> bigrams, std::vector<uint32_t> continuations) {
    const std::string path = PathOf("wrong");
    auto writer = Begin(path);
    TANDEM_CHECK_OK(writer->WriteUnigrams(kUnigrams));
    TANDEM_CHECK_OK(writer->WriteTokens(bigrams, continuations));
    TANDEM_CHECK_OK(writer->Finish());
    return std::string(Refusal(path).message());
  };
  auto bigrams = kBigrams;
  bigrams[3] = {3, 1};
  EXPECT_THAT(refusal(bigrams, kContinuations), HasSubstr("out of range"));
  bigrams[3] = {0, 1};
  EXPECT_THAT(refusal(bigrams, kContinuations), HasSubstr("comes twice"));
  bigrams[3] = {2, 0};
  EXPECT_THAT(refusal(bigrams, kContinuations), HasSubstr("has no weight"));
  auto continuations = kContinuations;
  continuations[5] = 3;
  EXPECT_THAT(refusal(kBigrams, continuations), HasSubstr("out of range"));
}

TEST(NgramFileWriter, GoesOnWhereItEnded) {
  const std::string expected = Read(Whole("at_once")), path = PathOf("resumed");
  WriteTokens(*Begin(path), 0, 1);
  {
    auto writer = Begin(path);
    EXPECT_EQ(writer->done(), 1u);
    WriteTokens(*writer, 1, 1);
    EXPECT_TRUE(
        absl::IsUnavailable(NgramFileWriter::Open(path, kShape, base::Existing::kReplace).status()))
        << "two would write into each other's file";
  }
  auto writer = Begin(path);
  EXPECT_EQ(writer->done(), 2u);
  WriteTokens(*writer, 2, 1);
  TANDEM_CHECK_OK(writer->WriteUnigrams(kUnigrams));
  TANDEM_CHECK_OK(writer->Finish());
  EXPECT_EQ(Read(path), expected);
}

TEST(NgramFileWriter, BeginsAnewForAnotherShape) {
  const std::string path = PathOf("another");
  WriteTokens(*Begin(path), 0, 2);
  NgramShape other = kShape;
  other.model_id = "model-2";
  EXPECT_EQ(Begin(path, other)->done(), 0u);
  WriteTokens(*Begin(path, other), 0, 2);
  std::filesystem::resize_file(path + ".partial", 300);
  EXPECT_EQ(Begin(path, other)->done(), 0u) << "a part that was cut";
}

TEST(NgramFileWriter, ReplacesOnlyWhatItMay) {
  const std::string path = PathOf("old");
  Write(path, "precious");
  EXPECT_EQ(NgramFileWriter::Open(path, kShape, base::Existing::kKeep).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  EXPECT_EQ(Read(path), "precious");
  for (const std::string& special : {path, path + ".partial"}) {
    std::filesystem::remove(special);
    for (const bool fifo : {true, false}) {
      if (fifo) {
        ASSERT_EQ(mkfifo(special.c_str(), 0600), 0);
      } else {
        std::filesystem::create_symlink("/dev/full", special);
      }
      EXPECT_EQ(NgramFileWriter::Open(path, kShape, base::Existing::kReplace).status().code(),
                absl::StatusCode::kInvalidArgument);
      std::filesystem::remove(special);
    }
  }
  // A file that came meanwhile.
  auto writer = NgramFileWriter::Open(path, kShape, base::Existing::kKeep);
  TANDEM_CHECK_OK(writer);
  TANDEM_CHECK_OK((*writer)->WriteUnigrams(kUnigrams));
  WriteTokens(**writer, 0, 3);
  Write(path, "another's");
  EXPECT_EQ((*writer)->Finish().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Read(path), "another's");
}

TEST(NgramFileWriter, RefusesBeforeItWrites) {
  const std::string path = PathOf("theirs");
  Write(path + ".partial", "a letter to somebody else");
  EXPECT_THAT(
      std::string(NgramFileWriter::Open(path, kShape, base::Existing::kReplace).status().message()),
      HasSubstr("is something else"));
  EXPECT_EQ(Read(path + ".partial"), "a letter to somebody else");
  EXPECT_FALSE(NgramFileWriter::Open("/nowhere/at/all", kShape, base::Existing::kReplace).ok());
  NgramShape wrong = kShape;
  wrong.successors = 4;
  wrong.continuation = 17;
  wrong.model_id = std::string(128, 'x');
  EXPECT_THAT(
      std::string(NgramFileWriter::Open(path, wrong, base::Existing::kReplace).status().message()),
      AllOf(HasSubstr("successors is 4, outside 1 to 3"), HasSubstr("17, outside 0 to 16"),
            HasSubstr("128, outside 1 to 127")));
}

}  // namespace
}  // namespace tandem::draft_service::derived_ngrams_test
