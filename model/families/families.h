// The families of models that are served. A new one is a file beside llama.cc, a line here and an
// entry in Families().
#pragma once

#include <vector>

#include "model/families/family.h"
#include "model/files/json_fields.h"

namespace tandem::model {

const Family& LlamaFamily();
const Family& MistralFamily();
const Family& Qwen2Family();
const Family& Qwen3Family();
const Family& Smollm3Family();
const Family& Gemma3Family();
const Family& Phi3Family();
const Family& Olmo2Family();
const Family& GraniteFamily();
const Family& Gpt2Family();
const Family& OptFamily();
const Family& GptNeoxFamily();

// All that are served, at least one, in the order in which messages name them.
const std::vector<const Family*>& Families();

// The family of a config.json: by model_type, as transformers chooses a model's class; without one
// by the first of `architectures` that a family has. Null: there is none, which is reported to
// `fields` with the names of all that are served.
const Family* FindFamily(Fields& fields);

}  // namespace tandem::model
