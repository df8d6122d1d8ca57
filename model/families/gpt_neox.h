// GPT-NeoX and Pythia: attention and MLP in parallel, a rotation of a share of each head.
#pragma once

#include "model/families/family.h"

namespace tandem::model {

const Family& GptNeoxFamily();

}  // namespace tandem::model
