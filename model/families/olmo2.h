// OLMo 2: norms after attention and MLP instead of before, and norms of q and k over all heads.
#pragma once

#include "model/families/family.h"

namespace tandem::model {

const Family& Olmo2Family();

}  // namespace tandem::model
