// Norm, rotation, the write to the cache and the gate as a card runs them: kThreads threads per
// block. Of the norm a block has a row; of the rotation some heads, of the gate some numbers of
// one.
#include "torch/kernels/norm_rope.h"

namespace tandem::kernels {

using Traits = NormRopeTraits;

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_add_norm_float32(AddNormArguments arguments) {
  __shared__ AddNormShared shared;
  AddNorm<Traits, Float32>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_add_norm_bfloat16(AddNormArguments arguments) {
  __shared__ AddNormShared shared;
  AddNorm<Traits, Bfloat16>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_add_norm_float16(AddNormArguments arguments) {
  __shared__ AddNormShared shared;
  AddNorm<Traits, Float16>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_rope_write_float32(RopeWriteArguments arguments) {
  __shared__ RopeWriteShared shared;
  RopeWrite<Traits, Float32>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_rope_write_bfloat16(RopeWriteArguments arguments) {
  __shared__ RopeWriteShared shared;
  RopeWrite<Traits, Bfloat16>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_rope_write_float16(RopeWriteArguments arguments) {
  __shared__ RopeWriteShared shared;
  RopeWrite<Traits, Float16>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_gate_float32(GateArguments arguments) {
  Gate<Traits, Float32>(Block(), arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_gate_bfloat16(GateArguments arguments) {
  Gate<Traits, Bfloat16>(Block(), arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_gate_float16(GateArguments arguments) {
  Gate<Traits, Float16>(Block(), arguments);
}

}  // namespace tandem::kernels
