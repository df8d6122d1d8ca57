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
#include "torch/kernels/wide_loads.h"

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

// Of a row, so much at a time.
inline constexpr uint32_t kNormChunk = 4096;
struct AddNormShared {
  alignas(16) float row[kNormChunk];  // what is normed
  float lanes[kNormLanes];
};

// Numbers that a thread loads together: of a row kNormGroups times kNormGroup that lie together.
inline constexpr uint32_t kNormGroup = 8, kNormGroups = 2;

// The first number of each of a thread's groups, below `size`; the last one stands for those behind it.
struct NormPlace {
  uint32_t first;
  bool counts;
};
template <uint32_t kThreads>
TANDEM_HOST_DEVICE_INLINE NormPlace PlaceOfGroup(int t, uint32_t round, uint32_t k, uint32_t size) {
  const uint32_t first = round + (k * kThreads + static_cast<uint32_t>(t)) * kNormGroup;
  return {first < size ? first : size - kNormGroup, first < size};
}

// kNormGroup numbers; loads of 16 bytes.
template <typename Element>
struct NormNumbers {
  static constexpr uint32_t kQuads = kNormGroup / kPerQuad<Element>;
  Quad quads[kQuads];

  TANDEM_HOST_DEVICE_INLINE void Load(const typename Element::Word* from) {
    TANDEM_UNROLL
    for (uint32_t q = 0; q < kQuads; ++q) quads[q] = LoadAs<Quad>(from + q * kPerQuad<Element>);
  }
  TANDEM_HOST_DEVICE_INLINE float operator[](uint32_t i) const {
    return ElementOf<Element>(quads[i / kPerQuad<Element>], i % kPerQuad<Element>);
  }
};

// All 16 bytes that a row's kernel reads and writes are aligned.
TANDEM_HOST_DEVICE_INLINE bool IsWide(const AddNormArguments& a) {
  return a.size % kNormGroup == 0 && IsAligned(a.residual) && IsAligned(a.added) &&
         IsAligned(a.weight) && IsAligned(a.out);
}

// Some of a row into shared memory; with kAdds what is to be added to it is, first.
template <typename Traits, typename Element, bool kAdds>
TANDEM_HOST_DEVICE void ReadRow(const Block& block, AddNormShared& shared, bool wide, float* x,
                                const typename Element::Word* added, uint32_t size) {
  constexpr uint32_t kThreads = Traits::kThreads;
  block.Threads([&](int t) {
    TANDEM_NO_UNROLL
    for (uint32_t round = 0; wide && round < size; round += kNormGroups * kNormGroup * kThreads) {
      NormNumbers<Float32> xs[kNormGroups];
      NormNumbers<Element> more[kNormGroups];
      for (uint32_t k = 0; k < kNormGroups; ++k) {
        const NormPlace place = PlaceOfGroup<kThreads>(t, round, k, size);
        xs[k].Load(x + place.first);
        if constexpr (kAdds) more[k].Load(added + place.first);
      }
      AskTogether();
      for (uint32_t k = 0; k < kNormGroups; ++k) {
        const NormPlace place = PlaceOfGroup<kThreads>(t, round, k, size);
        if (!place.counts) continue;
        float sums[kNormGroup];
        TANDEM_UNROLL
        for (uint32_t i = 0; i < kNormGroup; ++i) {
          sums[i] = xs[k][i];
          if constexpr (kAdds) sums[i] += more[k][i];
        }
        if constexpr (kAdds) StoreTogether<kNormGroup>(x + place.first, sums);
        StoreTogether<kNormGroup>(shared.row + place.first, sums);
      }
    }
    TANDEM_NO_UNROLL
    for (uint32_t i = t; !wide && i < size; i += kThreads) {
      if constexpr (kAdds) x[i] += Element::Load(added[i]);
      shared.row[i] = x[i];
    }
  });
}

// out = weight · (x · scale), `size` numbers.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE_INLINE void WriteNormed(const Block& block, bool wide, const float* x,
                                           const float* weight, float scale,
                                           typename Element::Word* out, uint32_t size) {
  constexpr uint32_t kThreads = Traits::kThreads;
  block.Threads([&](int t) {
    TANDEM_NO_UNROLL
    for (uint32_t round = 0; wide && round < size; round += kNormGroups * kNormGroup * kThreads) {
      NormNumbers<Float32> xs[kNormGroups], weights[kNormGroups];
      for (uint32_t k = 0; k < kNormGroups; ++k) {
        const NormPlace place = PlaceOfGroup<kThreads>(t, round, k, size);
        xs[k].Load(x + place.first);
        weights[k].Load(weight + place.first);
      }
      AskTogether();
      for (uint32_t k = 0; k < kNormGroups; ++k) {
        const NormPlace place = PlaceOfGroup<kThreads>(t, round, k, size);
        if (!place.counts) continue;
        typename Element::Word words[kNormGroup];
        TANDEM_UNROLL
        for (uint32_t i = 0; i < kNormGroup; ++i) {
          words[i] = Element::Store(weights[k][i] * (xs[k][i] * scale));
        }
        StoreTogether<kNormGroup>(out + place.first, words);
      }
    }
    TANDEM_NO_UNROLL
    for (uint32_t i = t; !wide && i < size; i += kThreads) {
      out[i] = Element::Store(weight[i] * (x[i] * scale));
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
  const bool wide = IsWide(a);
  float* x = a.residual + first;
  const auto* added = static_cast<const typename Element::Word*>(a.added);
  auto* out = static_cast<typename Element::Word*>(a.out) + first;
  const uint32_t lanes = Traits::kFault == NormRopeFault::kSumByThread ? kThreads : kNormLanes;
  block.Threads([&](int t) {
    for (uint32_t lane = t; lane < kNormLanes; lane += kThreads) shared.lanes[lane] = 0;
  });
  for (uint32_t chunk = 0; chunk < a.size; chunk += kNormChunk) {
    const uint32_t size = a.size - chunk < kNormChunk ? a.size - chunk : kNormChunk;
    if (added != nullptr) {
      ReadRow<Traits, Element, true>(block, shared, wide, x + chunk, added + first + chunk, size);
    } else {
      ReadRow<Traits, Element, false>(block, shared, wide, x + chunk, nullptr, size);
    }
    block.Threads([&](int t) {
      for (uint32_t lane = t; lane < lanes; lane += kThreads) {
        float sum = shared.lanes[lane];
        for (uint32_t i = lane; i < size; i += lanes) sum = Fma(shared.row[i], shared.row[i], sum);
        shared.lanes[lane] = sum;
      }
    });
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
  if (a.size <= kNormChunk) {
    WriteNormed<Traits, Element>(block, wide, shared.row, a.weight, scale, out, a.size);
  } else {
    WriteNormed<Traits, Element>(block, wide, x, a.weight, scale, out, a.size);
  }
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
