// The text of Gemma 3, alone and in its wrapper with images. Source of the arithmetic: transformers,
// models/gemma3.
#pragma once

#include "model/families/family.h"

namespace tandem::model {

const Family& Gemma3Family();

}  // namespace tandem::model
