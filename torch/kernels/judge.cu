// The judge as a card runs it. Launched in the order and with the grids of launch.cc, with kThreads
// threads per block.
#include "torch/kernels/judge_distribution.h"
#include "torch/kernels/judge_prepare.h"
#include "torch/kernels/judge_verdict.h"

namespace tandem::kernels {

using Traits = JudgeTraits;

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_judge_prepare(JudgeArguments arguments) {
  JudgePrepare<Traits>(Block(), arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_judge_largest(JudgeArguments arguments) {
  __shared__ JudgeShared<Traits> shared;
  JudgeLargest<Traits>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_judge_weights(JudgeArguments arguments) {
  JudgeWeights<Traits>(Block(), arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_judge_sums(JudgeArguments arguments) {
  __shared__ JudgeShared<Traits> shared;
  JudgeSums<Traits>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_judge_distribution(JudgeArguments arguments) {
  __shared__ JudgeShared<Traits> shared;
  JudgeDistribution<Traits>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_judge_probabilities(JudgeArguments arguments) {
  __shared__ JudgeShared<Traits> shared;
  JudgeProbabilities<Traits>(Block(), shared, arguments);
}

extern "C" __global__ void __launch_bounds__(Traits::kThreads)
    tandem_judge_verdict(JudgeArguments arguments) {
  __shared__ JudgeShared<Traits> shared;
  JudgeVerdict<Traits>(Block(), shared, arguments);
}

}  // namespace tandem::kernels
