#include "model/cpu/kernels.h"

#include "model/cpu/grouped.h"
#include "model/cpu/int8.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tandem::model::cpu {
#if defined(__x86_64__)
namespace {

// Not every compiler knows this name in __builtin_cpu_supports.
bool HasF16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

Kernels WithVnni() {
  Kernels kernels = kAvx512Kernels;
  kernels.name = "avx512-vnni";
  kernels.int8 = &kAvx512VnniInt8Kernels;
  kernels.grouped = &kAvx512VnniGroupedKernels;
  return kernels;
}

}  // namespace
#endif

const std::vector<const Kernels*>& SupportedKernels() {
  static const std::vector<const Kernels*>* const kernels = [] {
    auto* found = new std::vector<const Kernels*>();
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni")) {
      static const Kernels with_vnni = WithVnni();
      found->push_back(&with_vnni);
    }
    if (__builtin_cpu_supports("avx512f")) found->push_back(&kAvx512Kernels);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasF16c()) {
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
