#include "model/cpu/kernels.h"

namespace tandem::model::cpu {

const std::vector<const Kernels*>& SupportedKernels() {
  static const std::vector<const Kernels*>* const kernels = [] {
    auto* found = new std::vector<const Kernels*>();
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) found->push_back(&kAvx512Kernels);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      found->push_back(&kAvx2Kernels);
    }
#endif
    found->push_back(&kPortableKernels);
    return found;
  }();
  return *kernels;
}

const Kernels& BestKernels() { return *SupportedKernels().front(); }

}  // namespace tandem::model::cpu
