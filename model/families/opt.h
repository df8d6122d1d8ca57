// OPT from 125M to 66B, without 350M, which norms afterwards and has narrower embeddings.
#pragma once

#include "model/families/family.h"

namespace tandem::model {

const Family& OptFamily();

}  // namespace tandem::model
