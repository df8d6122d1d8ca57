#include "all_in_one/prune_vocabulary.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/gguf/model_texts.h"
#include "common/hub/local_directory.h"
#include "common/tokenizer/tokenizer.h"
#include "draft_service/ngrams/corpus_ngrams.h"
#include "model/load.h"
#include "model/model_files.h"
#include "model/pruned_output.h"

namespace tandem::all_in_one {
namespace {

// One line per second, and one at the end.
class Megabytes {
 public:
  explicit Megabytes(const char* what) : what_(what) {}

  void Tell(uint64_t done, uint64_t all) {
    const absl::Time now = absl::Now();
    if (told_all_ || (done < all && now < next_)) return;
    next_ = now + absl::Seconds(1);
    told_all_ = done >= all;
    std::fprintf(stderr, "%s %.1f of %.1f MB\n", what_, static_cast<double>(done) / 1e6,
                 static_cast<double>(all) / 1e6);
  }

 private:
  const char* const what_;
  absl::Time next_ = absl::Now() + absl::Seconds(1);
  bool told_all_ = false;
};

struct Kept {
  std::vector<uint32_t> tokens;  // ascending
  double share = 0;              // of the corpus's tokens
};

// `counts`: by token, as many as the model has. `always`: ids that are kept in any case.
absl::StatusOr<Kept> Choose(const std::vector<uint64_t>& counts,
                            const std::vector<uint32_t>& always, uint32_t keep) {
  std::vector<bool> is_kept(counts.size());
  size_t kept = 0;
  const auto take = [&](uint32_t token) {
    if (token >= counts.size() || is_kept[token]) return;
    is_kept[token] = true;
    ++kept;
  };
  for (const uint32_t token : always) take(token);
  if (kept > keep) {
    return absl::InvalidArgumentError(
        absl::StrCat("--keep=", keep, ": ", kept, " special tokens are kept in any case"));
  }
  std::vector<uint32_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return counts[a] > counts[b]; });
  for (const uint32_t token : order) {
    if (kept == keep) break;
    take(token);
  }
  Kept result;
  uint64_t all = 0, covered = 0;
  for (uint32_t token = 0; token < counts.size(); ++token) {
    all += counts[token];
    if (!is_kept[token]) continue;
    covered += counts[token];
    result.tokens.push_back(token);
  }
  result.share = static_cast<double>(covered) / static_cast<double>(std::max<uint64_t>(all, 1));
  return result;
}

}  // namespace

void PruneVocabularyOptions::AddTo(flags::FlagSet& flags) {
  flags.Group("The draft");
  flags.Text("model", &model,
             "a Hugging Face directory (config.json, *.safetensors, tokenizer.json), or a model "
             "of the Hugging Face hub: OWNER/NAME[@REVISION]. Required");
  flags.Text("corpus", &corpus,
             "a UTF-8 text file, like the texts that will be generated: its most frequent tokens "
             "are kept. Required");
  flags.Text(
      "out", &out,
      "directory to write, for tandem-draft --model or tandem serve --draft-model; it must not "
      "exist. Required");
  flags.Number(
      "keep", &keep, 1, 1 << 24,
      "number of tokens that the draft may propose, special ones included; fewer than the model "
      "has");
}

absl::Status PruneVocabularyOptions::Validate() const {
  if (model.empty()) return absl::InvalidArgumentError("--model=MODEL is required");
  if (corpus.empty()) return absl::InvalidArgumentError("--corpus=FILE is required");
  if (out.empty()) return absl::InvalidArgumentError("--out=DIRECTORY is required");
  return absl::OkStatus();
}

absl::Status PruneVocabulary(PruneVocabularyOptions options) {
  TANDEM_RETURN_IF_ERROR(model::CheckPrunedOutput(options.out));
  TANDEM_ASSIGN_OR_RETURN(options.model,
                          hub::LocalDirectory("--model", options.model, hub::Need::kModel));
  if (gguf::IsGguf(options.model)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model=", options.model,
                     ": GGUF files are not supported here; give a directory with safetensors"));
  }
  TANDEM_ASSIGN_OR_RETURN(auto tokenizer, tokenizer::Tokenizer::Load(options.model));
  TANDEM_ASSIGN_OR_RETURN(
      const model::ModelFiles files,
      model::ReadModelFiles(options.model, /*sampling_defaults=*/false, model::CheckWholeOutput));
  const auto vocabulary = static_cast<uint32_t>(files.config.spec.vocabulary_size);
  if (options.keep >= vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat("--keep=", options.keep, ": the model has ",
                                                   vocabulary, " tokens; keep fewer"));
  }
  Megabytes counting("counted"), writing("written");
  draft_service::CorpusOptions counted;
  counted.max_bigrams = 1;
  counted.vocabulary_size = vocabulary;
  counted.progress = [&](uint64_t done, uint64_t all) { counting.Tell(done, all); };
  auto corpus = draft_service::CountCorpus(options.corpus, *tokenizer, counted);
  if (!corpus.ok()) {
    return absl::Status(corpus.status().code(),
                        absl::StrCat("--corpus: ", corpus.status().message()));
  }
  std::vector<uint64_t> counts = corpus->unigrams();
  counts.resize(vocabulary);
  std::vector<uint32_t> always = files.config.eos_token_ids;
  always.insert(always.end(), tokenizer->eos_token_ids().begin(), tokenizer->eos_token_ids().end());
  for (uint32_t id = 0; id < tokenizer->vocabulary_size(); ++id) {
    if (tokenizer->IsSpecial(id)) always.push_back(id);
  }
  TANDEM_ASSIGN_OR_RETURN(const Kept kept, Choose(counts, always, options.keep));
  TANDEM_RETURN_IF_ERROR(
      model::WritePruned(options.model, kept.tokens, options.out, [&](int64_t done, int64_t all) {
        writing.Tell(static_cast<uint64_t>(done), static_cast<uint64_t>(all));
      }));
  std::fprintf(stderr, "%s: the output has %zu of %u tokens, which are %.2f %% of the corpus\n",
               options.out.c_str(), kept.tokens.size(), vocabulary, 100 * kept.share);
  return absl::OkStatus();
}

}  // namespace tandem::all_in_one
