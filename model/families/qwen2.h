// Qwen2 and Qwen2.5: a Llama whose q, k and v have biases.
#pragma once

#include "model/families/family.h"

namespace tandem::model {

const Family& Qwen2Family();

}  // namespace tandem::model
