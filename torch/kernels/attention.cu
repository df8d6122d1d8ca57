// Attention as a card runs it, a pair of kernels for each type that keys and values are held in.
// kThreads threads per block; grids of any number of blocks, and of (rows, a row's numbers /
// kThreads).
#include "torch/kernels/attention.h"

namespace tandem::kernels {

using Traits = AttentionTraits;

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_attend_float32(AttentionArguments arguments) {
  __shared__ AttentionShared<Traits> shared;
  AttendPartials<Traits, Float32>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_attend_bfloat16(AttentionArguments arguments) {
  __shared__ AttentionShared<Traits> shared;
  AttendPartials<Traits, Bfloat16>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_attend_float16(AttentionArguments arguments) {
  __shared__ AttentionShared<Traits> shared;
  AttendPartials<Traits, Float16>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_combine_partials_float32(AttentionArguments arguments) {
  CombinePartials<Traits, Float32>(Block(), arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_combine_partials_bfloat16(AttentionArguments arguments) {
  CombinePartials<Traits, Bfloat16>(Block(), arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_combine_partials_float16(AttentionArguments arguments) {
  CombinePartials<Traits, Float16>(Block(), arguments);
}

}  // namespace tandem::kernels
