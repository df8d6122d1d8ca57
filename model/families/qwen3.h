// Qwen3 without experts: norms of q and k over each head, a head size of its own.
#pragma once

#include "model/families/family.h"

namespace tandem::model {

const Family& Qwen3Family();

}  // namespace tandem::model
