// Matrices of 4-bit integers in groups of inputs, as three tools pack them into 32-bit words. A
// weight is
//   scale · (integer - zero point)
// with one scale and one zero point for the `group` inputs of an output that are beside each other.
// Eight integers of a word are numbered from its lowest bits on.
//
//               integers [words]   a word has            zero points           scales
//   pack-quantized  [out, in/8]    8 inputs of an output     [out/8, in/group]     [out, in/group]
//   GPTQ            [in/8, out]    8 inputs of an output     [in/group, out/8]     [in/group, out]
//   AWQ             [in, out/8]    8 outputs of an input     [in/group, out/8]     [in/group, out]
//
// A word of AWQ has its outputs in the order 0 2 4 6 1 3 5 7. GPTQ writes zero points less 1, but
// in the version gptq_v2. Without zero points all of them are 8.
//
// Sources: compressed-tensors (compressors, pack_quantized), AutoGPTQ and GPTQModel (qlinear),
// AutoAWQ (WQLinear_GEMM).
#pragma once

#include <cstdint>
#include <optional>

#include "model/cpu/block_formats.h"
#include "model/cpu/buffer.h"
#include "model/files/safetensors.h"

namespace tandem::model {

enum class PackedFormat { kNone, kPackQuantized, kGptq, kGptqV2, kAwq };

// What config.json says of all matrices that are packed.
struct PackedScheme {
  PackedFormat format = PackedFormat::kNone;
  int group = 0;           // inputs; a multiple of 32
  bool has_zeros = false;  // zero points must be there; else they may

  bool operator==(const PackedScheme&) const = default;
};

// Thread safety: a plain value. Its views are of a Checkpoint, which must outlive it, and of the
// shapes above.
struct PackedTensor {
  PackedScheme scheme;
  int64_t outputs = 0, inputs = 0;  // of the whole matrix
  int64_t first = 0;                // output that is row 0
  TensorView integers;              // I32
  TensorView scales;                // F32, F16 or BF16
  std::optional<TensorView> zeros;  // I32
};

// Blocks that have the same values: kQ4_0 where the scales are F16 and all zero points 8, kQ4_0F
// where they are 8, kQ4_1F elsewhere. These need a product of scale and zero point to be exact, so
// the scales must not be F32. Absent: there is a zero point that GPTQ cannot have written (15, of
// which readers make 0 or 16).
std::optional<cpu::SourceType> BlocksOf(const PackedTensor& tensor);

// All rows of a view with `packed`, as blocks of its dtype: view.bytes.
cpu::Buffer Unpack(const TensorView& view);

}  // namespace tandem::model
