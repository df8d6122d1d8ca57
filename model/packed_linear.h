// A linear layer as a pass reads it: the matrix in the kernels' layout, made of one or more tensors
// of a checkpoint.
#pragma once

#include <vector>

#include "model/cpu/buffer.h"
#include "model/cpu/packed_matrix.h"
#include "model/decoder_tensors.h"
#include "model/dtype.h"

namespace tandem::model {

// Immutable once made, so threads may share it.
struct PackedLinear {
  cpu::PackedMatrix matrix;
  cpu::Buffer bias;  // in the matrix's packed order; empty: there is none

  const float* bias_data() const { return bias.bytes() == 0 ? nullptr : bias.floats(); }
};

// Of a tensor of F32, BF16 or F16.
cpu::SourceType SourceTypeOf(const TensorView& view);

// Both copy what the views point at. The parts have the same number of inputs, and either all have
// a bias or none. Parts of different types are held in fp32, unless `dtype` says otherwise.

// The parts' outputs one after the other; at least one part.
PackedLinear PackConcatenated(Dtype dtype, const std::vector<LinearView>& parts);

// The outputs of a gated MLP's first half as Epilogue::kSwiGlu wants them: panels of kLanes gates
// and their kLanes ups. Both have as many outputs.
PackedLinear PackGateUp(Dtype dtype, const LinearView& gate, const LinearView& up);

}  // namespace tandem::model
