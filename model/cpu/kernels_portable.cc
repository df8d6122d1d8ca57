// For any machine: correct, and slow where std::fma is a library call.
#include <cmath>
#include <cstring>

#include "model/cpu/half.h"
#include "model/cpu/kernels_template.h"

namespace tandem::model::cpu {
namespace {

struct Portable {
  struct Type {
    float lane[4];
  };
  static constexpr int kLanes = 4;
  static constexpr int kMaxRows = 6;
  static constexpr int kAheadWords = 0;
  static constexpr int kMaxSums = 1;
  static constexpr int kBlockBytes = 0;

  template <class F>
  static TANDEM_KERNEL Type Each(F f) {
    return Type{{f(0), f(1), f(2), f(3)}};
  }

  static Type Zero() { return Type{{0, 0, 0, 0}}; }
  static Type Broadcast(float x) { return Type{{x, x, x, x}}; }
  static Type Load(const float* p) {
    return Each([&](int i) { return p[i]; });
  }
  static Type LoadIntegers(const int32_t* p) {
    return Each([&](int i) { return static_cast<float>(p[i]); });
  }
  static void Store(float* p, const Type& x) {
    for (int i = 0; i < kLanes; ++i) p[i] = x.lane[i];
  }
  static Type Fma(const Type& a, const Type& b, const Type& c) {
    return Each([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  static Type Add(const Type& a, const Type& b) {
    return Each([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static Type Sub(const Type& a, const Type& b) {
    return Each([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  static Type Mul(const Type& a, const Type& b) {
    return Each([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static Type Div(const Type& a, const Type& b) {
    return Each([&](int i) { return a.lane[i] / b.lane[i]; });
  }
  static Type Min(const Type& a, const Type& b) {
    return Each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Type Max(const Type& a, const Type& b) {
    return Each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static void LoadHalves(const uint32_t* p, Type* low, Type* high) {
    for (int i = 0; i < kLanes; ++i) {
      low->lane[i] = FloatFromBits(p[i] << 16);
      high->lane[i] = FloatFromBits(p[i] & 0xffff0000u);
    }
  }
  static Type LoadFloat16(const uint32_t* p) {
    uint16_t halves[kLanes];
    std::memcpy(halves, p, sizeof(halves));
    return Each([&](int i) { return FromFloat16(halves[i]); });
  }
  static Type ScaleByPowerOf2(const Type& x, const Type& magic) {
    return Each([&](int i) {
      return FloatFromBits(BitsOfFloat(x.lane[i]) + (BitsOfFloat(magic.lane[i]) << 23));
    });
  }
};

}  // namespace

const Kernels kPortableKernels =
    MakeKernels<Portable>("portable", &kPortableInt8Kernels, &kPortableGroupedKernels);

}  // namespace tandem::model::cpu
