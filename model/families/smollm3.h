// SmolLM3: a Llama, some of whose layers are not rotated (NoPE). SmolLM2 is of the family of Llama.
#pragma once

#include "model/families/family.h"

namespace tandem::model {

const Family& Smollm3Family();

}  // namespace tandem::model
