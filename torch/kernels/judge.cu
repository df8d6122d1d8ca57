// The judge as a card runs it. Launched in this order, with kThreads threads per block; a grid of
// (rows, 1) but for tandem_judge_weights, which has (rows, weights / kColumn, rounded up).
#include "torch/kernels/judge_distribution.h"
#include "torch/kernels/judge_prepare.h"
#include "torch/kernels/judge_verdict.h"

namespace tandem::kernels {

using Traits = JudgeTraits;

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_judge_prepare(JudgeArguments arguments) {
  __shared__ JudgeShared<Traits> shared;
  JudgePrepare<Traits>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_judge_weights(JudgeArguments arguments) {
  JudgeWeights<Traits>(Block(), arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_judge_distribution(JudgeArguments arguments) {
  __shared__ JudgeShared<Traits> shared;
  JudgeDistribution<Traits>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_judge_verdict(JudgeArguments arguments) {
  __shared__ JudgeShared<Traits> shared;
  JudgeVerdict<Traits>(Block(), shared, arguments);
}

}  // namespace tandem::kernels
