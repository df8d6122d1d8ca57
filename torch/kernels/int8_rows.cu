// Rows of activations to integers, and sums times scales, as a card runs them: kThreads threads per
// block; a block per row, and of the scales one for kThreads numbers of a row.
#include "torch/kernels/int8_rows.h"

namespace tandem::kernels {

using Traits = Int8RowsTraits;

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_quantize(QuantizeArguments arguments) {
  __shared__ QuantizeShared<Traits> shared;
  Quantize<Traits>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_scale(ScaleArguments arguments) {
  Scale<Traits>(Block(), arguments);
}

}  // namespace tandem::kernels
