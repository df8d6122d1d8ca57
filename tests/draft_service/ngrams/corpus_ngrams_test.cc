#include "draft_service/ngrams/corpus_ngrams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "common/tokenizer/tokenizer.h"
#include "draft_service/text_drafters.h"
#include "tests/draft_service/drafters/ngram_drafters.h"
#include "tests/support/paths.h"

namespace tandem::draft_service::corpus_ngrams_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const tokenizer::Tokenizer& DemoTokenizer() {
  static const tokenizer::Tokenizer* const loaded =
      tokenizer::Tokenizer::Load(testing::SourcePath("demo/draft")).value().release();
  return *loaded;
}

std::string Write(const std::string& name, const std::string& text) {
  std::string path = ::testing::TempDir() + "/corpus_ngrams_" + name;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  TANDEM_CHECK(file != nullptr) << path;
  TANDEM_CHECK(std::fwrite(text.data(), 1, text.size(), file) == text.size());
  TANDEM_CHECK(std::fclose(file) == 0);
  return path;
}

std::vector<std::pair<uint32_t, uint32_t>> Pairs(absl::Span<const Successor> successors) {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (const Successor& one : successors) pairs.emplace_back(one.token, one.weight);
  return pairs;
}

TEST(CorpusNgrams, TablesRankByCountAndBackOff) {
  NgramCounter counter(6, 100);
  counter.Add({1, 2, 1, 3, 1, 2, 4, 2, 1, 0});
  const auto unigrams = UnigramTable(counter);
  const auto bigrams = BigramTable(counter, unigrams);
  using Pair = std::pair<uint32_t, uint32_t>;
  const std::vector<Pair> commonest = {{1, 4}, {2, 3}, {0, 1}, {3, 1}, {4, 1}};
  EXPECT_EQ(Pairs(unigrams->After(3)), commonest);
  EXPECT_EQ(Pairs(unigrams->After(UINT32_MAX)), commonest);
  EXPECT_THAT(Pairs(bigrams->After(1)), ElementsAre(Pair{2, 2}, Pair{0, 1}, Pair{3, 1}));
  EXPECT_THAT(Pairs(bigrams->After(2)), ElementsAre(Pair{1, 2}, Pair{4, 1}));
  for (uint32_t unseen : {0u, 5u, 6u, UINT32_MAX}) {
    EXPECT_EQ(Pairs(bigrams->After(unseen)), commonest) << unseen;
    EXPECT_THAT(BigramTable(counter, nullptr)->After(unseen), IsEmpty()) << unseen;
  }
}

TEST(CorpusNgrams, NoMoreSuccessorsThanCanBeSent) {
  NgramCounter counter(300, 1000);
  for (uint32_t token = 299; token >= 100; --token) counter.Add({1, token});
  const auto table = BigramTable(counter, nullptr);
  const auto successors = table->After(1);
  ASSERT_EQ(successors.size(), SuccessorTable::kMaxSuccessors);
  EXPECT_EQ(successors.front().token, 100u);
}

// A file that is tokenised in pieces is the text in one, but for the pieces' first tokens.
TEST(CorpusNgrams, CountsAFileOfManyPieces) {
  std::string text;
  std::vector<uint32_t> line =
      *DemoTokenizer().Encode("The café was öpen, naïve as ever.\n", false);
  const size_t lines = 25'000;
  for (size_t i = 0; i < lines; ++i) text += "The café was öpen, naïve as ever.\n";
  uint64_t told = 0;
  auto counted = CountCorpus(Write("long", text), DemoTokenizer(),
                             {.progress = [&told](uint64_t done, uint64_t all) {
                               EXPECT_GT(done, told);
                               told = done;
                               EXPECT_LE(done, all);
                             }});
  ASSERT_TRUE(counted.ok()) << counted.status();
  EXPECT_EQ(told, text.size());
  EXPECT_EQ(counted->tokens(), lines * line.size());
  // Without line ends or spaces a piece ends between characters.
  std::string dense;
  while (dense.size() < 600'000) dense += "aöü€";
  EXPECT_TRUE(CountCorpus(Write("dense", dense), DemoTokenizer()).ok());
}

TEST(CorpusNgrams, RefusesWhatIsNoCorpus) {
  const auto refusal = [](const std::string& path) {
    const auto counted = CountCorpus(path, DemoTokenizer());
    EXPECT_FALSE(counted.ok());
    EXPECT_THAT(std::string(counted.status().message()), HasSubstr(path));
    return std::string(counted.status().message());
  };
  EXPECT_THAT(refusal(Write("empty", "")), HasSubstr("is empty"));
  EXPECT_THAT(refusal(::testing::TempDir()), HasSubstr("is not a regular file"));
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("is not a regular file"));
  EXPECT_THAT(refusal("/nowhere/at/all"), HasSubstr("No such file"));
  EXPECT_THAT(refusal(Write("latin", std::string("caf\xe9 au lait\n"))),
              AllOf(HasSubstr("bytes 0 to 13"), HasSubstr("UTF-8")));

  TextDrafterOptions options;
  options.ngram_corpus = "/nowhere/at/all";
  EXPECT_THAT(std::string(MakeTextDrafters(options, DemoTokenizer()).status().message()),
              HasSubstr("--ngram-corpus: cannot open the corpus /nowhere/at/all"));
}

TEST(TextDrafters, OfACorpus) {
  TextDrafterOptions options;
  EXPECT_THAT(options.Names(), ElementsAre("prompt-lookup", "context-ngram"));
  options.ngram_corpus = Write("small", "the cat sat. the cat ran. the dog sat.");
  auto drafters = MakeTextDrafters(options, DemoTokenizer());
  ASSERT_TRUE(drafters.ok()) << drafters.status();
  std::vector<std::string> names;
  for (const DrafterFactory& factory : drafters->drafters) names.push_back(factory.name);
  EXPECT_EQ(names, options.Names());
  EXPECT_THAT(names, ElementsAre("prompt-lookup", "context-ngram", "corpus-unigram",
                                 "corpus-bigram", "mixed"));
  const std::vector<uint32_t> text = *DemoTokenizer().Encode("the cat sat. the", false);
  const std::vector<uint32_t> drafted = ProposeAfter(drafters->drafters[3], text, 2);
  EXPECT_EQ(*DemoTokenizer().Decode(drafted), " cat");
  EXPECT_NE(drafters->guesses.table, nullptr) << "cascade guesses by it";
}

}  // namespace
}  // namespace tandem::draft_service::corpus_ngrams_test
