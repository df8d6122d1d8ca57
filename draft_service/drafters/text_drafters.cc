#include "draft_service/drafters/text_drafters.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/tokenizer.h"
#include "draft_service/drafters/context_ngram.h"
#include "draft_service/drafters/mixed.h"
#include "draft_service/drafters/prompt_lookup.h"
#include "draft_service/drafters/recall.h"
#include "draft_service/drafters/successor_drafter.h"
#include "draft_service/ngrams/corpus_ngrams.h"
#include "draft_service/ngrams/derived_ngrams.h"

namespace tandem::draft_service {
namespace {

constexpr char kCorpusUnigram[] = "corpus-unigram", kCorpusBigram[] = "corpus-bigram";
constexpr char kDerivedUnigram[] = "derived-unigram", kDerivedBigram[] = "derived-bigram";
constexpr char kDerivedExtended[] = "derived-extended";
constexpr char kMixed[] = "mixed";

absl::StatusOr<NgramCounter> Count(const std::string& path, const tokenizer::Tokenizer& tokenizer) {
  CorpusOptions options;
  uint64_t shown = 0;  // tenths
  options.progress = [&shown](uint64_t done, uint64_t all) {
    const uint64_t tenth = done * 10 / all;
    if (tenth == shown) return;
    shown = tenth;
    TANDEM_LOG(kInfo) << "counting the corpus: " << tenth * 10 << " %";
  };
  auto counted = CountCorpus(path, tokenizer, options);
  if (!counted.ok()) {
    return absl::Status(counted.status().code(),
                        absl::StrCat("--ngram-corpus: ", counted.status().message()));
  }
  TANDEM_LOG(kInfo) << "the corpus " << path << " has " << counted->tokens()
                    << " tokens; rare pairs dropped for others: " << counted->dropped();
  return counted;
}

absl::StatusOr<std::shared_ptr<const DerivedNgrams>> OpenDerived(
    const std::string& path, const tokenizer::Tokenizer& tokenizer) {
  auto file = ReadNgrams(path, tokenizer.content_id());
  if (!file.ok()) {
    return absl::Status(file.status().code(), absl::StrCat("--ngrams: ", file.status().message()));
  }
  const NgramShape& shape = (*file)->shape;
  TANDEM_LOG(kInfo) << "the n-grams of " << path << " are of the model " << shape.model_id << ": "
                    << shape.vocabulary_size << " tokens, " << shape.successors
                    << " successors of each, continuations of " << shape.continuation;
  return file;
}

}  // namespace

void TextDrafterOptions::AddTo(flags::FlagSet& flags) {
  flags.Number("ngram-query", &ngram_query, 1, 8,
               "context-ngram and mixed: tokens at the text's end that they look for in the text "
               "before");
  flags.Number("recall-tokens", &recall_tokens, 0, 1 << 28,
               "for the drafter recall: how many tokens of earlier outputs it remembers, of all "
               "cache scopes together, some 100 bytes each; 0 = there is no such drafter");
  flags.Text("ngram-corpus", &ngram_corpus,
             "a text file, UTF-8: its n-grams are counted at the start, for the drafters "
             "corpus-unigram, corpus-bigram and mixed");
  flags.Text("ngrams", &ngrams,
             "a file that `tandem derive-ngrams` wrote, of a model with this tokenizer: for the "
             "drafters derived-unigram, derived-bigram, derived-extended and mixed");
}

std::vector<std::string> TextDrafterOptions::Names() const {
  std::vector<std::string> names = {PromptLookupOptions().name, ContextNgramOptions().name};
  if (recall_tokens > 0) names.push_back(RecallOptions().name);
  if (!ngram_corpus.empty()) names.insert(names.end(), {kCorpusUnigram, kCorpusBigram});
  if (!ngrams.empty()) {
    names.insert(names.end(), {kDerivedUnigram, kDerivedBigram, kDerivedExtended});
  }
  if (!ngram_corpus.empty() || !ngrams.empty()) names.push_back(kMixed);
  return names;
}

absl::StatusOr<TextDrafters> MakeTextDrafters(const TextDrafterOptions& options,
                                              const tokenizer::Tokenizer& tokenizer) {
  ContextNgramOptions context;
  context.query = options.ngram_query;
  std::vector<DrafterFactory> drafters = {PromptLookupFactory(), ContextNgramFactory(context)};
  if (options.recall_tokens > 0) {
    drafters.push_back(RecallFactory({.max_tokens = options.recall_tokens}));
  }
  std::shared_ptr<const SuccessorTable> after_the_text;  // of mixed
  if (!options.ngram_corpus.empty()) {
    TANDEM_ASSIGN_OR_RETURN(const NgramCounter counted, Count(options.ngram_corpus, tokenizer));
    const auto unigrams = UnigramTable(counted);
    const auto bigrams = BigramTable(counted, unigrams);
    drafters.push_back(SuccessorFactory(kCorpusUnigram, unigrams));
    drafters.push_back(SuccessorFactory(kCorpusBigram, bigrams));
    after_the_text = bigrams;
  }
  if (!options.ngrams.empty()) {
    TANDEM_ASSIGN_OR_RETURN(const auto file, OpenDerived(options.ngrams, tokenizer));
    after_the_text = ExtendedTable(file);
    drafters.push_back(SuccessorFactory(kDerivedUnigram, UnigramTable(*file)));
    drafters.push_back(SuccessorFactory(kDerivedBigram, BigramTable(file)));
    drafters.push_back(SuccessorFactory(kDerivedExtended, after_the_text));
  }
  if (after_the_text != nullptr) {
    drafters.push_back(MixedFactory({.name = kMixed, .context = context}, after_the_text));
  }
  return TextDrafters{std::move(drafters),
                      {.context = std::move(context), .table = std::move(after_the_text)}};
}

}  // namespace tandem::draft_service
