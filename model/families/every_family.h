// What config.json says that every family is asked about: quantised weights (quantization.cc), and
// the fields that change what a decoder computes in some family (arithmetic_fields.cc).
#pragma once

#include "model/files/json_fields.h"
#include "model/files/packed_tensor.h"

namespace tandem::model {

struct Quantization {
  // Weights are int8 as compressed-tensors writes them in its format int-quantized ("w8a8"):
  // symmetric, a scale for each output channel; activations int8, symmetric, dynamic, by token.
  bool int8 = false;
  // Weights alone, as 4-bit integers in groups of 32, 64 or 128 inputs: compressed-tensors'
  // pack-quantized, GPTQ, AWQ.
  PackedScheme packed;
};

// Reads quantization_config. Which matrices are quantised, their own tensors in the checkpoint say;
// `ignore` and `targets` say it again.
//
// Everything else is reported to `fields` by its name, with what is served and what to do: another
// format, method or number of bits, weights by block or tensor, static activations,
// quantised outputs or caches, transforms, sparsity, and fields that are not known.
Quantization ReadQuantization(Fields& fields);

// Reports each field that changes the arithmetic in some family and that this family's reader has
// not read, unless its value is the one that does nothing. Of a config.json's other fields (how a
// model was trained, what its classes are called) nothing is said. To be called after the reader.
void RefuseUnread(Fields& fields);

}  // namespace tandem::model
