// What stands around a product in whole numbers (model/cpu/int8.h): rows of activations to integers
// before it, and sums times scales behind it. With the bits of both on a processor; a row depends
// on itself alone.
#pragma once

#include "torch/kernels/block.h"
#include "torch/kernels/numbers.h"

namespace tandem::kernels {

// Mistakes that tests make on purpose.
enum class Int8RowsFault {
  kNone,
  kInverseOfScale,  // integers by 1 / scale instead of 127 / the largest magnitude
  kRoundedTwice,    // the product is rounded to float32 before it is rounded to an integer
  kPaddingForgotten,
};

// kThreads: of a block, a power of two.
struct Int8RowsTraits {
  static constexpr int kThreads = 256;
  static constexpr Int8RowsFault kFault = Int8RowsFault::kNone;
};

struct QuantizeArguments {
  const float* in = nullptr;  // [rows, size]
  int8_t* out = nullptr;      // [rows, stride], with zeros behind `size`
  float* scales = nullptr;    // [rows]
  uint32_t size = 0;
  uint32_t stride = 0;
};
static_assert(sizeof(QuantizeArguments) == 32);  // NVRTC lays it out alike

template <typename Traits>
struct QuantizeShared {
  float largest[Traits::kThreads];
};

// A block per row. The scale is the largest magnitude / 127; 0 for a row of zeros, or of numbers so
// small that 127 / the largest is infinite; NaN where a number is not finite, and all integers are
// 0 then.
template <typename Traits>
TANDEM_HOST_DEVICE void Quantize(const Block& block, QuantizeShared<Traits>& shared,
                                 const QuantizeArguments& a) {
  constexpr float kSmallest = 0x1p-126f;  // of normal numbers
  constexpr float kLargest = 0x1.fffffep127f;
  const float* in = a.in + uint64_t{block.x()} * a.size;
  block.Threads([&](int t) {
    float largest = 0;
    for (uint32_t i = t; i < a.size; i += Traits::kThreads) {
      const float magnitude = in[i] < 0 ? -in[i] : in[i];
      // A NaN is not at most anything: it stays.
      if (!(magnitude <= largest)) largest = magnitude;
      if (!(largest <= kLargest)) break;
    }
    shared.largest[t] = largest;
  });
  Reduce<Traits::kThreads>(block, shared.largest, [](float x, float y) {
    if (!(x <= kLargest)) return x;
    return y <= x ? x : y;
  });
  const float largest = block.Read(shared.largest[0]);
  const bool finite = largest <= kLargest;
  const bool counts = finite && largest >= kSmallest;
  const float scale = counts ? largest / 127.0f : finite ? 0.0f : largest - largest;
  float inverse = counts ? 127.0f / largest : 0.0f;
  if (Traits::kFault == Int8RowsFault::kInverseOfScale) inverse = counts ? 1.0f / scale : 0.0f;
  int8_t* out = a.out + uint64_t{block.x()} * a.stride;
  const uint32_t end = Traits::kFault == Int8RowsFault::kPaddingForgotten ? a.size : a.stride;
  block.Threads([&](int t) {
    if (t == 0) a.scales[block.x()] = scale;
    for (uint32_t i = t; i < end; i += Traits::kThreads) {
      // A product of two float32 is exact in float64, so it is rounded once, ties to even.
      constexpr double kRound = 0x1.8p52;
      double exact = i < a.size && counts ? double{in[i]} * double{inverse} : 0.0;
      if (Traits::kFault == Int8RowsFault::kRoundedTwice) exact = static_cast<float>(exact);
      out[i] = static_cast<int8_t>(static_cast<int32_t>((exact + kRound) - kRound));
    }
  });
}

struct ScaleArguments {
  const int32_t* sums = nullptr;         // [rows, stride]
  const float* row_scales = nullptr;     // [rows]
  const float* output_scales = nullptr;  // [size]
  float* out = nullptr;                  // [rows, size]
  uint32_t size = 0;
  uint32_t stride = 0;
};
static_assert(sizeof(ScaleArguments) == 40);

// out = sum · the row's scale · the output's scale, in this order. x of a block is the row, and y
// counts the row's blocks, of kThreads numbers each.
template <typename Traits>
TANDEM_HOST_DEVICE void Scale(const Block& block, const ScaleArguments& a) {
  block.Threads([&](int t) {
    const uint32_t i = block.y() * Traits::kThreads + t;
    if (i >= a.size) return;
    const int32_t sum = a.sums[uint64_t{block.x()} * a.stride + i];
    a.out[uint64_t{block.x()} * a.size + i] =
        static_cast<float>(sum) * a.row_scales[block.x()] * a.output_scales[i];
  });
}

}  // namespace tandem::kernels
