// A model whose output has some tokens alone: a draft that computes fewer logits. FR-Spec (Zhao et
// al. 2025, arXiv 2502.14856) calls it frequency-ranked: most of what a text has are few tokens of
// a large vocabulary.
//
// What is written is the model's own directory but for the output:
//   config.json        draft_vocab_size: how many tokens; tie_word_embeddings: false;
//                      pruned_vocabulary_of: the model_id of the whole model
//   model.safetensors  the output's rows of those tokens, and d2t [draft_vocab_size], I64: row j is
//                      of token j + d2t[j]. The other tensors are as they were, the embedding whole
// The names are those that EAGLE-3's checkpoints have, and vLLM and SGLang read.
//
// Thread safety: a function of files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tandem::model {

// `tokens`: ascending, below the vocabulary's size; at least one, and not all (a CHECK: that they
// ascend). `out`: is not there yet. It is written beside, under a name of this process, and renamed
// when it is whole; nothing is left of one that fails. `progress`:
// called now and then with (bytes written, of how many); may be empty.
//
// Errors as LoadOptions tells of the files (load.h). INVALID_ARGUMENT: the model's output is pruned
// already, its weights are int8 in the file, its family cannot say draft_vocab_size, or its text
// lies in a wrapper's config.json. Of what is written, as CheckPrunedOutput and base/output_file.h
// say.
absl::Status WritePruned(const std::string& directory, absl::Span<const uint32_t> tokens,
                         const std::string& out,
                         const std::function<void(int64_t, int64_t)>& progress);

// Whether `out` may be written; ask before any work. ALREADY_EXISTS: something has that name.
// Errors otherwise as base::CheckOutput's.
absl::Status CheckPrunedOutput(const std::string& out);

}  // namespace tandem::model
