// Looks first, and computes only where it finds nothing: a block is what followed the text's last
// tokens earlier in the text (prompt_lookup.h), if at least two of them stand there, else the draft
// model's (model_drafter.h). What a text repeats, is accepted more often than what a small model
// says, and takes no pass of it. As vLLM's n-gram before EAGLE (vllm-project/vllm, pull request
// 24344), a block at a time.
//
// Which of the two it is depends on the committed tokens alone. A block that was found is one-hot;
// the model's has its q where it samples. So both are exact under every rule. What the model has
// not read meanwhile, it reads with its next block's first pass.
//
// Chains alone, none in advance.
#pragma once

#include "draft_service/drafters/drafter.h"
#include "draft_service/drafters/model_drafter.h"
#include "draft_service/drafters/prompt_lookup.h"
#include "model/language_model.h"

namespace tandem::draft_service {

inline constexpr char kLookupFirst[] = "lookup-first";

// `model` and `options` as ModelDrafterFactory has them, but for the name.
DrafterFactory LookupFirstFactory(model::LanguageModel& model, ModelDrafterOptions options,
                                  PromptLookupOptions lookup = {.longest_match = 4,
                                                                .shortest_match = 2});

}  // namespace tandem::draft_service
