// What the kernels call the type of a tensor.
//
// Thread safety: a pure function.
#pragma once

#include "model/cpu/block_formats.h"
#include "model/files/safetensors.h"

namespace tandem::model {

// Of a tensor of F32, BF16, F16, I8, or of blocks. Of others kFloat32: the reader of the model
// refuses them first.
cpu::SourceType SourceTypeOf(const TensorView& view);

// The other way round, of blocks.
std::string BlockName(cpu::SourceType type);

}  // namespace tandem::model
