// Products of small matrices by a warp's tensor cores: mma.m16n8k16 of PTX, in 16-bit numbers with
// float32 sums.
//
//   block.Warps([&](const Warp& warp) {
//     Lanes<Quad> some;                      a value of each of the warp's 32 threads
//     warp.Each([&](int lane) { some[lane] = … });
//     MultiplyAdd<Element>(a, b, sums);      all threads together
//   });
//
// A phase of warps is one of threads (block.h), in which threads of a warp work together. What a
// warp leaves to its next phase is its part of an OfWarps.
//
// A sum is a chain of steps of 16 products. Within a step the order is the hardware's, the same for
// all rows: row i of the sums comes of row i of `a` alone. The host adds up a step's products in
// float64 and rounds their sum with the one before once, so bits differ from a card's in their last
// place, and the order of steps does not.
#pragma once

#include "torch/kernels/block.h"
#include "torch/kernels/numbers.h"

namespace tandem::kernels {

// Rows of `a`, columns of `b`, and products of a step.
inline constexpr uint32_t kMmaRows = 16, kMmaColumns = 8, kMmaStep = 16;

#ifdef __CUDACC_RTC__
template <typename T>
class Lanes {
 public:
  TANDEM_HOST_DEVICE_INLINE T& operator[](int) { return own_; }

 private:
  T own_;
};

template <typename T, uint32_t kWarps>
class OfWarps {
 public:
  TANDEM_HOST_DEVICE_INLINE T& operator[](uint32_t) { return own_; }

 private:
  T own_;
};
#else
template <typename T>
class Lanes {
 public:
  T& operator[](int lane) { return all_[lane]; }

 private:
  T all_[kWarp] = {};
};

template <typename T, uint32_t kWarps>
class OfWarps {
 public:
  T& operator[](uint32_t warp) { return all_[warp]; }

 private:
  T all_[kWarps] = {};
};
#endif

// What a thread holds of the matrices, two numbers in a word, the first one in its lower half. With
// group = lane / 4 and pair = lane % 4:
//   a     rows group, group + 8, group, group + 8; products 2 · pair (+ 1), for the last two 8 more
//   b     column group; products 2 · pair (+ 1), and 8 more
//   sums  rows group, group, group + 8, group + 8; columns 2 · pair, 2 · pair + 1, and so again
struct MmaA {
  uint32_t words[4];
};
struct MmaB {
  uint32_t words[2];
};
struct MmaSums {
  float values[4];
};

#ifndef __CUDACC_RTC__
template <typename Element>
float HalfOf(uint32_t word, uint32_t half) {
  return Element::Load(static_cast<uint16_t>(word >> (16 * half)));
}
#endif

template <typename Element>
TANDEM_HOST_DEVICE_INLINE void MultiplyAdd(Lanes<MmaA>& a, Lanes<MmaB>& b, Lanes<MmaSums>& sums) {
#ifdef __CUDACC_RTC__
  const MmaA& x = a[0];
  const MmaB& y = b[0];
  MmaSums& z = sums[0];
  if constexpr (Element::kIsBfloat16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(z.values[0]), "+f"(z.values[1]), "+f"(z.values[2]), "+f"(z.values[3])
        : "r"(x.words[0]), "r"(x.words[1]), "r"(x.words[2]), "r"(x.words[3]), "r"(y.words[0]),
          "r"(y.words[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(z.values[0]), "+f"(z.values[1]), "+f"(z.values[2]), "+f"(z.values[3])
        : "r"(x.words[0]), "r"(x.words[1]), "r"(x.words[2]), "r"(x.words[3]), "r"(y.words[0]),
          "r"(y.words[1]));
  }
#else
  float in_a[kMmaRows][kMmaStep], in_b[kMmaStep][kMmaColumns];
  for (uint32_t k = 0; k < kMmaStep; ++k) {
    const uint32_t pair = k % 8 / 2, upper = k / 8;
    for (uint32_t row = 0; row < kMmaRows; ++row) {
      const uint32_t word = a[row % 8 * 4 + pair].words[2 * upper + row / 8];
      in_a[row][k] = HalfOf<Element>(word, k % 2);
    }
    for (uint32_t column = 0; column < kMmaColumns; ++column) {
      in_b[k][column] = HalfOf<Element>(b[column * 4 + pair].words[upper], k % 2);
    }
  }
  for (uint32_t row = 0; row < kMmaRows; ++row) {
    for (uint32_t column = 0; column < kMmaColumns; ++column) {
      float& sum = sums[row % 8 * 4 + column / 2].values[row / 8 * 2 + column % 2];
      double all = 0;
      for (uint32_t k = 0; k < kMmaStep; ++k) all += double{in_a[row][k]} * in_b[k][column];
      sum = static_cast<float>(sum + all);
    }
  }
#endif
}

}  // namespace tandem::kernels
