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

// Whether some matrix of layers or output is in ggml's blocks.
bool HasBlocks(const DecoderTensors& tensors);

using Place = cpu::PackedMatrix::Place;

// What a matrix made of these parts is held as: I8 as it is, and else as `dtype` says. With kAuto
// it is the parts' type; by group where all of them are blocks; fp32 where they differ otherwise.
cpu::WeightType HeldAs(Dtype dtype, const std::vector<LinearView>& parts);

// Whether these parts of a matrix, held as `dtype`, keep their file's values because of their
// types.
bool RoundsNothing(Dtype dtype, const std::vector<LinearView>& parts);

// Both copy what the views point at. With `place` kFile they copy the biases alone: the views'
// tensors must stay, none may be packed, and `dtype` must round nothing. The parts have the same
// number of inputs, and either all have a bias or none. Parts of different types are held in fp32,
// unless `dtype` says otherwise or all are blocks, which are held by group (cpu/pack_groups.h).
// Parts
// of I8 are held as they are, whatever `dtype` says; all are, or none.

// The parts' outputs one after the other; at least one part.
PackedLinear PackConcatenated(Dtype dtype, const std::vector<LinearView>& parts,
                              Place place = Place::kMemory);

// The outputs of a gated MLP's first half as Epilogue::kSwiGlu wants them: panels of kLanes gates
// and their kLanes ups. Both have as many outputs.
PackedLinear PackGateUp(Dtype dtype, const LinearView& gate, const LinearView& up,
                        Place place = Place::kMemory);

}  // namespace tandem::model
