// How config.json says that a checkpoint's weights are quantised.
#pragma once

#include "model/files/json_fields.h"

namespace tandem::model {

// Reads quantization_config. True: weights are int8 as compressed-tensors writes them in its format
// int-quantized ("w8a8"): symmetric, a scale for each output channel; activations int8, symmetric,
// dynamic, by token. Which matrices are so, their own types in the checkpoint say; `ignore` and
// `targets` say it again. False: there is none.
//
// Everything else is reported to `fields` by its name, with what is served and what to do: another
// format or method, weights by group, block or tensor, asymmetric or static ones, weights alone,
// quantised outputs or caches, transforms, sparsity, and fields that are not known.
bool ReadQuantization(Fields& fields);

}  // namespace tandem::model
