#include "draft_service/ngrams/derived_ngrams.h"

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

DerivedNgrams Begin(const std::string& path, const NgramShape& shape = kShape) {
  auto begun = BeginNgrams(path, shape, base::Existing::kReplace);
  TANDEM_CHECK_OK(begun);
  return *std::move(begun);
}

// As if the model had been asked for so many tokens.
DerivedNgrams Done(uint32_t tokens, const NgramShape& shape = kShape) {
  DerivedNgrams derived(shape);
  derived.done = tokens;
  derived.unigrams = kUnigrams;
  std::copy_n(kBigrams.begin(), tokens * 2, derived.bigrams.begin());
  std::copy_n(kContinuations.begin(), tokens * 4, derived.continuations.begin());
  return derived;
}

void Save(const DerivedNgrams& derived, const std::string& path) {
  TANDEM_CHECK_OK(SaveNgrams(derived, path, base::Existing::kReplace));
}

std::string Whole(const std::string& name) {
  const std::string path = PathOf(name);
  Save(Done(2), path);
  Save(Done(3), path);
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
  const auto file = ReadNgrams(path, tokenizer_id);
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
  auto file = ReadNgrams(path, "tokenizer-1");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->shape, kShape);
  const auto unigrams = UnigramTable(**file), bigrams = BigramTable(*file),
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
  newer[8] = 3;
  Write(path, newer);
  EXPECT_THAT(std::string(Refusal(path).message()), HasSubstr("has version 3; this reads 2"));
  Write(path, "{\"no\": \"table\"}");
  EXPECT_THAT(std::string(Refusal(path).message()), HasSubstr("is not a file of `tandem derive-"));
  EXPECT_TRUE(absl::IsNotFound(Refusal("/nowhere/at/all")));
  EXPECT_THAT(std::string(Refusal(::testing::TempDir()).message()),
              HasSubstr("not a regular file"));
  const std::string begun = PathOf("begun");
  Save(Done(1), begun);
  EXPECT_THAT(std::string(Refusal(begun + ".partial").message()), HasSubstr("is a part of a file"));
}

// A file with the right hash whose tokens no drafter could use.
TEST(DerivedNgrams, RefusesTokensThatAreNone) {
  const auto refusal = [](std::vector<Successor> bigrams, std::vector<uint32_t> continuations) {
    const std::string path = PathOf("wrong");
    DerivedNgrams derived = Done(3);
    derived.bigrams = std::move(bigrams);
    derived.continuations = std::move(continuations);
    Save(derived, path);
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

TEST(DerivedNgrams, GoOnWhereTheyEnded) {
  const std::string expected = Read(Whole("at_once")), path = PathOf("resumed");
  for (uint32_t done = 0; done < 3; ++done) {
    DerivedNgrams derived = Begin(path);
    EXPECT_EQ(derived.done, done);
    EXPECT_EQ(Pairs(derived.bigrams), Pairs(Done(done).bigrams));
    EXPECT_EQ(derived.continuations, Done(done).continuations);
    Save(Done(done + 1), path);
  }
  EXPECT_EQ(Read(path), expected);
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(DerivedNgrams, BeginAnewWhatIsNoPartOfThem) {
  const std::string path = PathOf("another");
  Save(Done(2), path);
  NgramShape other = kShape;
  other.model_id = "model-2";
  EXPECT_EQ(Begin(path, other).done, 0u);
  const std::string bytes = Read(path + ".partial");
  for (size_t i = 8; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    Write(path + ".partial", changed);
    ASSERT_EQ(Begin(path).done, 0u) << "byte " << i;
    Write(path + ".partial", bytes.substr(0, i));
    ASSERT_EQ(Begin(path).done, 0u) << "cut at " << i;
  }
  Write(path + ".partial", bytes);
  EXPECT_EQ(Begin(path).done, 2u);
}

TEST(DerivedNgrams, ReplaceOnlyWhatTheyMay) {
  const std::string path = PathOf("old");
  const auto begin = [&path](base::Existing existing) {
    return BeginNgrams(path, kShape, existing).status().code();
  };
  Write(path, "precious");
  EXPECT_EQ(begin(base::Existing::kKeep), absl::StatusCode::kAlreadyExists);
  for (const std::string& special : {path, path + ".partial"}) {
    std::filesystem::remove(special);
    for (const bool fifo : {true, false}) {
      if (fifo) {
        ASSERT_EQ(mkfifo(special.c_str(), 0600), 0);
      } else {
        std::filesystem::create_symlink("/dev/full", special);
      }
      EXPECT_EQ(begin(base::Existing::kReplace), absl::StatusCode::kInvalidArgument);
      std::filesystem::remove(special);
    }
  }
  // A file that came meanwhile.
  EXPECT_EQ(begin(base::Existing::kKeep), absl::StatusCode::kOk);
  Write(path, "another's");
  EXPECT_EQ(SaveNgrams(Done(3), path, base::Existing::kKeep).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Read(path), "another's");
}

TEST(DerivedNgrams, AreRefusedBeforeAnythingIsWritten) {
  const std::string path = PathOf("theirs");
  const auto refusal = [](const std::string& where, const NgramShape& shape) {
    return std::string(BeginNgrams(where, shape, base::Existing::kReplace).status().message());
  };
  Write(path + ".partial", "a letter to somebody else");
  EXPECT_THAT(refusal(path, kShape), HasSubstr("is something else"));
  EXPECT_EQ(Read(path + ".partial"), "a letter to somebody else");
  EXPECT_THAT(refusal("/nowhere/at/all", kShape), HasSubstr("/nowhere/at/all"));
  NgramShape wrong = kShape;
  wrong.successors = 4;
  wrong.continuation = 17;
  wrong.model_id = std::string(128, 'x');
  EXPECT_THAT(refusal(path, wrong),
              AllOf(HasSubstr("successors is 4, outside 1 to 3"), HasSubstr("17, outside 0 to 16"),
                    HasSubstr("128, outside 1 to 127")));
}

}  // namespace
}  // namespace tandem::draft_service::derived_ngrams_test
