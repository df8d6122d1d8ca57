// Mistral 7B and its kin: a Llama with a head size of its own and, in the first version, a window.
#pragma once

#include "model/families/family.h"

namespace tandem::model {

const Family& MistralFamily();

}  // namespace tandem::model
