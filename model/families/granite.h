// Granite 3 without experts: a Llama with four multipliers.
#pragma once

#include "model/families/family.h"

namespace tandem::model {

const Family& GraniteFamily();

}  // namespace tandem::model
