// Attention on tensor cores as a card runs it; grids as those of attention.cu, whose kernels put
// the partials together.
#include "torch/kernels/attention_mma.h"

namespace tandem::kernels {

using Traits = MmaAttentionTraits;

// Blocks that a multiprocessor has room for, so that one computes while another one waits.
constexpr int kBlocks = 2;

extern "C" __global__ void __launch_bounds__(Traits::kThreads, kBlocks)
    tandem_attend_mma_bfloat16(AttentionArguments arguments) {
  __shared__ MmaShared<Traits> shared;
  AttendPartials<Traits, Bfloat16>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads, kBlocks)
    tandem_attend_mma_float16(AttentionArguments arguments) {
  __shared__ MmaShared<Traits> shared;
  AttendPartials<Traits, Float16>(Block(), shared, arguments);
}

}  // namespace tandem::kernels
