// Llama 2 and 3, and what was made in their form (SmolLM2, TinyLlama, …). Source: transformers,
// models/llama/configuration_llama.py and modeling_llama.py.
#pragma once

#include "model/families/family.h"

namespace tandem::model {

const Family& LlamaFamily();

}  // namespace tandem::model
