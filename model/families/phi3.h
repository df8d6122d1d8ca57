// Phi-3, Phi-3.5 and Phi-4-mini without experts: fused projections, a longrope, and in Phi-4-mini a
// rotation of a share of each head.
#pragma once

#include "model/families/family.h"

namespace tandem::model {

const Family& Phi3Family();

}  // namespace tandem::model
