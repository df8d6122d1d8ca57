// What stands between the products of a layer: the residual and its norm in one kernel, rotation
// and the write to the cache in another one, and the gate of an MLP in a third one. A row depends
// on itself alone.
//
// Products come as they are made, in the type that keys and values are held in: that of all void
// pointers here. All is computed in float32.
#pragma once

#include "torch/kernels/block.h"
#include "torch/kernels/cache_types.h"
#include "torch/kernels/numbers.h"

namespace tandem::kernels {

// Mistakes that tests make on purpose.
enum class NormRopeFault {
  kNone,
  kEpsilonForgotten,
  kSumByThread,       // the order of the squares depends on the number of threads
  kAngleOfCell,       // in a tree a row is rotated by its cell instead of its position
  kNeighboursPaired,  // element 2i with 2i + 1, as some models do
  kKeyUnrotated,
  kPagesIgnored,
  kBiasForgotten,
  kGateForUp,
};

// kThreads: of a block, a power of two.
struct NormRopeTraits {
  static constexpr int kThreads = 256;
  static constexpr NormRopeFault kFault = NormRopeFault::kNone;
};

inline constexpr uint32_t kNormLanes = 256;

struct AddNormArguments {
  float* residual = nullptr;      // [rows, size]
  const void* added = nullptr;    // the same shape, added to the residual first; null: nothing is
  const float* weight = nullptr;  // [size]
  void* out = nullptr;            // [rows, size]
  uint32_t size = 0;
  float epsilon = 0;
};
static_assert(sizeof(AddNormArguments) == 40);  // NVRTC lays it out alike

struct AddNormShared {
  float lanes[kNormLanes];
};

// The squares of a row in each lane; with kAdds what is to be added to it is, first.
template <typename Traits, typename Element, bool kAdds>
TANDEM_HOST_DEVICE void SumSquares(const Block& block, AddNormShared& shared, float* x,
                                   const typename Element::Word* added, uint32_t size) {
  constexpr uint32_t kThreads = Traits::kThreads;
  const uint32_t lanes = Traits::kFault == NormRopeFault::kSumByThread ? kThreads : kNormLanes;
  block.Threads([&](int t) {
    for (uint32_t lane = t; lane < kNormLanes; lane += kThreads) {
      float sum = 0;
      TANDEM_NO_UNROLL
      for (uint32_t from = lane; from < size && lane < lanes; from += kInFlight * lanes) {
        float xs[kInFlight], more[kInFlight];
        for (uint32_t k = 0; k < kInFlight; ++k) {
          const uint32_t i = from + k * lanes < size ? from + k * lanes : from;
          xs[k] = x[i];
          if constexpr (kAdds) more[k] = Element::Load(added[i]);
        }
        for (uint32_t k = 0; k < kInFlight && from + k * lanes < size; ++k) {
          if constexpr (kAdds) x[from + k * lanes] = xs[k] += more[k];
          sum = Fma(xs[k], xs[k], sum);
        }
      }
      shared.lanes[lane] = sum;
    }
  });
}

// out = weight · x / sqrt(mean(x²) + epsilon), x the residual; a block a row. The squares are added
// up in kNormLanes lanes (index modulo kNormLanes) and one tree.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void AddNorm(const Block& block, AddNormShared& shared,
                                const AddNormArguments& a) {
  constexpr uint32_t kThreads = Traits::kThreads;
  const uint64_t first = uint64_t{block.x()} * a.size;
  float* x = a.residual + first;
  const auto* added = static_cast<const typename Element::Word*>(a.added);
  auto* out = static_cast<typename Element::Word*>(a.out) + first;
  if (added != nullptr) {
    SumSquares<Traits, Element, true>(block, shared, x, added + first, a.size);
  } else {
    SumSquares<Traits, Element, false>(block, shared, x, nullptr, a.size);
  }
  for (uint32_t half = kNormLanes / 2; half > 0; half /= 2) {
    block.Threads([&](int t) {
      for (uint32_t lane = t; lane < half; lane += kThreads) {
        shared.lanes[lane] += shared.lanes[lane + half];
      }
    });
  }
  const float sum = block.Read(shared.lanes[0]);
  const float epsilon = Traits::kFault == NormRopeFault::kEpsilonForgotten ? 0 : a.epsilon;
  const float scale = 1.0f / SquareRoot(sum / static_cast<float>(a.size) + epsilon);
  block.Threads([&](int t) {
    TANDEM_NO_UNROLL
    for (uint32_t from = t; from < a.size; from += kInFlight * kThreads) {
      float xs[kInFlight], weights[kInFlight];
      for (uint32_t k = 0; k < kInFlight; ++k) {
        const uint32_t i = from + k * kThreads < a.size ? from + k * kThreads : from;
        xs[k] = x[i];
        weights[k] = a.weight[i];
      }
      for (uint32_t k = 0; k < kInFlight && from + k * kThreads < a.size; ++k) {
        out[from + k * kThreads] = Element::Store(weights[k] * (xs[k] * scale));
      }
    }
  });
}

struct RopeWriteArguments {
  const CacheRow* rows = nullptr;
  const uint32_t* pages = nullptr;
  void* pool = nullptr;
  CacheLayer layer;
  uint32_t heads = 0;     // of queries
  float query_scale = 1;  // queries are multiplied by it after the rotation

  // [rows, (heads + 2 * kv_heads) * head_size]: queries, keys, values; and what is added to each
  // row of it first, null: nothing is.
  const void* qkv = nullptr;
  const float* bias = nullptr;
  const float* cosines = nullptr;  // [positions, head_size / 2], as RopeTable in model/
  const float* sines = nullptr;
  float* queries = nullptr;  // [rows, heads, head_size]
};
static_assert(sizeof(RopeWriteArguments) == 112);

// Rotates queries and keys by the positions of their rows, and writes keys and values to the cells
// of their rows. x of a block is the row, and y counts the row's blocks, of kThreads pairs each. No
// two rows have one cell, but those that fill up.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void RopeWrite(const Block& block, const RopeWriteArguments& a) {
  const CacheRow& row = a.rows[block.x()];
  const uint32_t size = a.layer.head_size, half = size / 2;
  const uint32_t rotated = a.heads + a.layer.kv_heads, all = rotated + a.layer.kv_heads;
  const auto* in =
      static_cast<const typename Element::Word*>(a.qkv) + uint64_t{block.x()} * all * size;
  const bool biased = a.bias != nullptr && Traits::kFault != NormRopeFault::kBiasForgotten;
  const uint64_t angle =
      uint64_t{Traits::kFault == NormRopeFault::kAngleOfCell ? row.cell : row.position} * half;
  const uint32_t page = Traits::kFault == NormRopeFault::kPagesIgnored
                            ? row.cell / kPageCells
                            : a.pages[row.first_page + row.cell / kPageCells];
  block.Threads([&](int t) {
    // A thread a pair of elements.
    const uint32_t i = block.y() * Traits::kThreads + t;
    if (i < all * half) {
      const uint32_t head = i / half, pair = i % half;
      const bool neighbours = Traits::kFault == NormRopeFault::kNeighboursPaired;
      const uint32_t d0 = neighbours ? 2 * pair : pair;
      const uint32_t d1 = neighbours ? 2 * pair + 1 : pair + half;
      float x0 = Element::Load(in[head * size + d0]), x1 = Element::Load(in[head * size + d1]);
      if (biased) {
        x0 += a.bias[head * size + d0];
        x1 += a.bias[head * size + d1];
      }
      const float cosine = a.cosines[angle + pair], sine = a.sines[angle + pair];
      const float scale = head < a.heads ? a.query_scale : 1;
      const float y0 = (x0 * cosine - x1 * sine) * scale;
      const float y1 = (x1 * cosine + x0 * sine) * scale;
      if (head < a.heads) {
        float* query = a.queries + (uint64_t{block.x()} * a.heads + head) * size;
        query[d0] = y0;
        query[d1] = y1;
        return;
      }
      const bool key = head < rotated;
      const bool turned = key && Traits::kFault != NormRopeFault::kKeyUnrotated;
      const uint32_t kv_head = key ? head - a.heads : head - rotated;
      auto* out = static_cast<typename Element::Word*>(a.pool) +
                  a.layer.KeyOf(page, row.cell, kv_head) + (key ? 0 : a.layer.value_words);
      out[d0] = Element::Store(turned ? y0 : x0);
      out[d1] = Element::Store(turned ? y1 : x1);
    }
  });
}

struct GateArguments {
  const void* in = nullptr;  // [rows, 2 * size]: the gate, and what goes through it
  void* out = nullptr;       // [rows, size]
  uint32_t size = 0;
  uint32_t padding = 0;
};
static_assert(sizeof(GateArguments) == 24);

// out = SiLU(gate) * up, SiLU(x) = x / (1 + exp(-x)). x of a block is the row, and y counts the
// row's blocks, of kThreads numbers each.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void Gate(const Block& block, const GateArguments& a) {
  const auto* in =
      static_cast<const typename Element::Word*>(a.in) + uint64_t{block.x()} * 2 * a.size;
  auto* out = static_cast<typename Element::Word*>(a.out) + uint64_t{block.x()} * a.size;
  block.Threads([&](int t) {
    const uint32_t i = block.y() * Traits::kThreads + t;
    if (i >= a.size) return;
    const bool swapped = Traits::kFault == NormRopeFault::kGateForUp;
    const float gate = Element::Load(in[swapped ? a.size + i : i]);
    const float up = Element::Load(in[swapped ? i : a.size + i]);
    // exp of no positive number, which may be infinite.
    const float power = Exp(gate < 0 ? gate : -gate);
    const float silu = (gate < 0 ? gate * power : gate) / (1.0f + power);
    out[i] = Element::Store(silu * up);
  });
}

}  // namespace tandem::kernels
