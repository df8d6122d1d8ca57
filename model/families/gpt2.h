// GPT-2: learned positions, layer norms, an MLP without a gate, transposed matrices.
#pragma once

#include "model/families/family.h"

namespace tandem::model {

const Family& Gpt2Family();

}  // namespace tandem::model
