#include "draft_service/text_drafters.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/tokenizer.h"
#include "draft_service/drafters/context_ngram.h"
#include "draft_service/drafters/lookup_first.h"
#include "draft_service/drafters/mixed.h"
#include "draft_service/drafters/prompt_lookup.h"
#include "draft_service/drafters/recall.h"
#include "draft_service/drafters/successor_drafter.h"
#include "draft_service/ngrams/corpus_ngrams.h"
#include "draft_service/ngrams/derived_ngrams.h"

namespace tandem::draft_service {
namespace {

// What the flags bring, for the drafters below. A table is null where there is no file for it.
struct Sources {
  TextDrafterOptions options;
  ContextNgramOptions context;
  std::shared_ptr<const SuccessorTable> corpus_unigrams, corpus_bigrams;
  std::shared_ptr<const SuccessorTable> derived_unigrams, derived_bigrams, derived_extended;

  // What follows where the text itself says nothing: the model's n-grams before the corpus's.
  const std::shared_ptr<const SuccessorTable>& after_the_text() const {
    return derived_extended != nullptr ? derived_extended : corpus_bigrams;
  }
};

struct Kind {
  const char* name;
  bool (*asked_for)(const TextDrafterOptions& options);
  DrafterFactory (*make)(const Sources& sources, const char* name);
};

bool Always(const TextDrafterOptions& /*options*/) { return true; }
bool HasCorpus(const TextDrafterOptions& options) { return !options.ngram_corpus.empty(); }
bool HasNgrams(const TextDrafterOptions& options) { return !options.ngrams.empty(); }

// Each has a line. In this order they are told to orchestrators.
constexpr Kind kKinds[] = {
    {"prompt-lookup", Always, [](const Sources&, const char*) { return PromptLookupFactory(); }},
    {"context-ngram", Always,
     [](const Sources& from, const char*) { return ContextNgramFactory(from.context); }},
    {"recall", [](const TextDrafterOptions& options) { return options.recall_tokens > 0; },
     [](const Sources& from, const char*) {
       return RecallFactory({.max_tokens = from.options.recall_tokens});
     }},
    {"corpus-unigram", HasCorpus,
     [](const Sources& from, const char* name) {
       return SuccessorFactory(name, from.corpus_unigrams);
     }},
    {"corpus-bigram", HasCorpus,
     [](const Sources& from, const char* name) {
       return SuccessorFactory(name, from.corpus_bigrams);
     }},
    {"derived-unigram", HasNgrams,
     [](const Sources& from, const char* name) {
       return SuccessorFactory(name, from.derived_unigrams);
     }},
    {"derived-bigram", HasNgrams,
     [](const Sources& from, const char* name) {
       return SuccessorFactory(name, from.derived_bigrams);
     }},
    {"derived-extended", HasNgrams,
     [](const Sources& from, const char* name) {
       return SuccessorFactory(name, from.derived_extended);
     }},
    {"mixed",
     [](const TextDrafterOptions& options) { return HasCorpus(options) || HasNgrams(options); },
     [](const Sources& from, const char* name) {
       return MixedFactory({.name = name, .context = from.context}, from.after_the_text());
     }},
};

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
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    if (kind.asked_for(*this)) names.push_back(kind.name);
  }
  return names;
}

absl::StatusOr<TextDrafters> MakeTextDrafters(const TextDrafterOptions& options,
                                              const tokenizer::Tokenizer& tokenizer) {
  Sources sources{.options = options};
  sources.context.query = options.ngram_query;
  if (HasCorpus(options)) {
    TANDEM_ASSIGN_OR_RETURN(const NgramCounter counted, Count(options.ngram_corpus, tokenizer));
    const auto unigrams = UnigramTable(counted);
    sources.corpus_unigrams = unigrams;
    sources.corpus_bigrams = BigramTable(counted, unigrams);
  }
  if (HasNgrams(options)) {
    TANDEM_ASSIGN_OR_RETURN(const auto file, OpenDerived(options.ngrams, tokenizer));
    sources.derived_unigrams = UnigramTable(*file);
    sources.derived_bigrams = BigramTable(file);
    sources.derived_extended = ExtendedTable(file);
  }
  TextDrafters made;
  for (const Kind& kind : kKinds) {
    if (!kind.asked_for(options)) continue;
    made.drafters.push_back(kind.make(sources, kind.name));
    TANDEM_CHECK(made.drafters.back().name == kind.name) << kind.name;
  }
  made.guesses = {.context = sources.context, .table = sources.after_the_text()};
  return made;
}

void AddDrafters(model::LanguageModel* model, ModelDrafterOptions model_drafter, TextDrafters text,
                 Options& options) {
  if (model != nullptr) {
    const model::ModelInfo& info = model->info();
    options.vocabulary_size = std::min(options.vocabulary_size, info.vocabulary_size);
    options.context_length = info.context_length;
    options.model_id = info.model_id;
    options.numerics_id = info.numerics_id;
    model_drafter.vocabulary_size = options.vocabulary_size;
    options.drafters.push_back(ModelDrafterFactory(*model, model_drafter));
    options.drafters.push_back(CascadeFactory(*model, model_drafter, text.guesses));
    options.drafters.push_back(LookupFirstFactory(*model, model_drafter));
  }
  std::move(text.drafters.begin(), text.drafters.end(), std::back_inserter(options.drafters));
}

}  // namespace tandem::draft_service
