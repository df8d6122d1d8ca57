#include "all_in_one/derive_ngrams.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/output_file.h"
#include "common/base/status_macros.h"
#include "common/hub/local_directory.h"
#include "common/tokenizer/tokenizer.h"
#include "draft_service/ngrams/derived_ngrams.h"
#include "draft_service/ngrams/ngram_derivation.h"
#include "model/load.h"
#include "model/model_files.h"
#include "model/output_distances.h"
#include "torch/load.h"

namespace tandem::all_in_one {
namespace {

using draft_service::DerivedNgrams;
using draft_service::NgramShape;

// A run that is killed loses so much at most.
constexpr absl::Duration kSaveEvery = absl::Seconds(10);

// The text's tokens with what the tokenizer puts before it, and without what it puts behind.
absl::StatusOr<std::vector<uint32_t>> Open(const tokenizer::Tokenizer& tokenizer,
                                           std::string_view text) {
  TANDEM_ASSIGN_OR_RETURN(std::vector<uint32_t> tokens, tokenizer.Encode(text));
  while (!tokens.empty() && tokenizer.IsSpecial(tokens.back())) tokens.pop_back();
  return tokens;
}

// A token is asked about after a line break, the end of a sentence, a letter and a digit: of the
// texts that were tried, those whose mean had most tokens of SmolLM2-135M's answers right
// (docs/ngrams.md).
absl::StatusOr<draft_service::DerivationOptions> WhatToAsk(const tokenizer::Tokenizer& tokenizer) {
  draft_service::DerivationOptions options;
  for (std::string_view text : {"\n", ".", "a", "0"}) {
    TANDEM_ASSIGN_OR_RETURN(options.contexts.emplace_back(), Open(tokenizer, text));
  }
  TANDEM_ASSIGN_OR_RETURN(options.beginning, tokenizer.Encode("a"));
  const auto end = std::find_if_not(options.beginning.begin(), options.beginning.end(),
                                    [&](uint32_t token) { return tokenizer.IsSpecial(token); });
  options.beginning.erase(end, options.beginning.end());
  return options;
}

// One line per second, and one at the end.
class Progress {
 public:
  void Tell(uint32_t done, uint32_t all) {
    if (first_done_ == 0) first_done_ = done;
    const absl::Time now = absl::Now();
    if (done < all && now < next_) return;
    next_ = now + absl::Seconds(1);
    std::string left;
    if (done < all && done > first_done_) {
      const double rate = absl::ToDoubleSeconds(now - start_) / (done - first_done_);
      left = absl::StrCat(
          ", ",
          absl::FormatDuration(absl::Floor(absl::Seconds(rate * (all - done)), absl::Seconds(1))),
          " left");
    }
    std::fprintf(stderr, "derived %u of %u tokens%s\n", done, all, left.c_str());
  }

 private:
  const absl::Time start_ = absl::Now();
  absl::Time next_ = start_ + absl::Seconds(1);
  uint32_t first_done_ = 0;
};

}  // namespace

DeriveNgramsOptions::DeriveNgramsOptions() { load.threads = model::DefaultThreads(256); }

void DeriveNgramsOptions::AddTo(flags::FlagSet& flags) {
  load.AddTo(
      flags,
      "a Hugging Face directory (config.json, *.safetensors, tokenizer.json), a GGUF file, or a "
      "model of the Hugging Face hub: OWNER/NAME[@REVISION] or OWNER/NAME:FILE.gguf; best the "
      "target. Required",
      "all cores", "with enough memory for them; fewer take more time");
  flags.Choice("device", &device, {"cpu", "torch-cpu", "cuda", "cuda:N"},
               "device that computes the model: cpu (Tandem's kernels), torch-cpu or cuda "
               "(LibTorch, by libtandem_torch.so)");
  flags.Group("The file");
  flags.Text("out", &out,
             "file to write, for tandem-draft --ngrams; unfinished work is kept in OUT.partial. "
             "Required");
  flags.Switch("force", &force, "replace an existing file OUT when the new one is complete");
  flags.Number("successors", &successors, 1, draft_service::SuccessorTable::kMaxSuccessors,
               "tokens that may follow each token, likeliest first");
  flags.Number("continuation", &continuation, 0, NgramShape::kMaxContinuation,
               "tokens that the model writes after each of these; 0 takes the least time");
}

absl::Status DeriveNgramsOptions::Validate() const {
  if (load.directory.empty()) return absl::InvalidArgumentError("--model=MODEL is required");
  if (out.empty()) return absl::InvalidArgumentError("--out=FILE is required");
  return load.Options().status();
}

absl::Status DeriveNgrams(DeriveNgramsOptions options) {
  const base::Existing existing = options.force ? base::Existing::kReplace : base::Existing::kKeep;
  TANDEM_RETURN_IF_ERROR(base::CheckOutput(options.out, existing));
  TANDEM_ASSIGN_OR_RETURN(
      options.load.directory,
      hub::LocalDirectory("--model", options.load.directory, hub::Need::kModel));
  TANDEM_ASSIGN_OR_RETURN(auto tokenizer, tokenizer::Tokenizer::Load(options.load.directory));
  TANDEM_ASSIGN_OR_RETURN(model::LoadOptions load, options.load.Options());
  load.sampling_defaults = false;
  TANDEM_ASSIGN_OR_RETURN(draft_service::DerivationOptions derivation, WhatToAsk(*tokenizer));
  if (load.pool_tokens == 0) {
    load.pool_tokens =
        draft_service::DerivationRoom(derivation, options.continuation, load.max_rows);
  }
  model::LoadReport report;
  load.report = &report;
  TANDEM_ASSIGN_OR_RETURN(auto model, torch::LoadFor(options.device, load));
  std::fprintf(stderr, "the model is %s\n", report.Text().c_str());

  NgramShape shape;
  shape.model_id = model->info().model_id;
  shape.tokenizer_id = tokenizer->content_id();
  shape.vocabulary_size = std::min(tokenizer->vocabulary_size(), model->info().vocabulary_size);
  shape.successors = std::min(options.successors, shape.vocabulary_size);
  shape.continuation = options.continuation;
  shape.unigrams =
      std::min<uint32_t>(draft_service::SuccessorTable::kMaxSuccessors, shape.vocabulary_size);
  TANDEM_ASSIGN_OR_RETURN(DerivedNgrams derived,
                          draft_service::BeginNgrams(options.out, shape, existing));
  if (derived.done > 0) {
    std::fprintf(stderr, "resuming at %u of %u tokens in %s.partial\n", derived.done,
                 shape.vocabulary_size, options.out.c_str());
  }
  {
    TANDEM_ASSIGN_OR_RETURN(
        const model::ModelFiles files,
        model::ReadModelFiles(options.load.directory, /*sampling_defaults=*/false,
                              [](const model::ModelConfig&) { return absl::OkStatus(); }));
    std::vector<double> distances = model::OutputDistances(files);
    distances.resize(shape.vocabulary_size);  // without what pads the embedding
    derived.unigrams = draft_service::NearestTokens(distances, shape.unigrams);
  }
  const auto save = [&] { return draft_service::SaveNgrams(derived, options.out, existing); };
  TANDEM_RETURN_IF_ERROR(save());  // where there is no room, before hours are spent
  absl::Time saved = absl::Now();
  Progress progress;
  derivation.after_batch = [&] {
    progress.Tell(derived.done, shape.vocabulary_size);
    if (absl::Now() - saved < kSaveEvery) return absl::OkStatus();
    saved = absl::Now();
    return save();
  };
  const absl::Status asked = draft_service::DeriveTokens(*model, derivation, derived);
  // Of a model that failed, too, what it has said is kept.
  const absl::Status last = save();
  TANDEM_RETURN_IF_ERROR(asked);
  TANDEM_RETURN_IF_ERROR(last);
  std::fprintf(stderr, "%s: %.1f MB, %u tokens, %u successors of each, continuations of %u\n",
               options.out.c_str(), static_cast<double>(shape.FileBytes()) / 1e6,
               shape.vocabulary_size, shape.successors, shape.continuation);
  return absl::OkStatus();
}

}  // namespace tandem::all_in_one
