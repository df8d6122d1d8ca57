// Rotation and the write to the cache in one kernel, with the norms of queries and keys, and the
// gate of an MLP in another one. A row depends on itself alone. Types are as in add_norm.h.
#pragma once

#include "torch/kernels/add_norm.h"
#include "torch/kernels/cache_types.h"

namespace tandem::kernels {

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
  // Weights of RMS norms before the rotation, null: there are none. Each head is normed by itself,
  // weights [head_size]; or with norm_together all queries of a row are, and all keys, as many
  // weights.
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  float epsilon = 0;
  uint32_t norm_together = 0;
  // Of a head element i forms a pair with element i + rotated_pairs, for i below it; others stay.
  uint32_t rotated_pairs = 0;
  uint32_t padding = 0;
  const float* cosines = nullptr;  // [positions, rotated_pairs], as RopeTable in model/
  const float* sines = nullptr;
  float* queries = nullptr;  // [rows, heads, head_size]
};
static_assert(sizeof(RopeWriteArguments) == 144);

// Pairs of a head are at most as many as it has lanes.
struct RopeWriteShared {
  float lanes[kNormLanes];
  float scales[2];  // of norms of all queries and of all keys
};

// Whole heads that a block has: of kThreads pairs, or one.
TANDEM_HOST_DEVICE uint32_t HeadsOfBlock(uint32_t threads, uint32_t head_size) {
  const uint32_t heads = threads / (head_size / 2);
  return heads > 0 ? heads : 1;
}

// 1 / sqrt(mean(x²) + epsilon) of numbers whose squares are summed up.
template <typename Traits>
TANDEM_HOST_DEVICE float ScaleOf(float squares, uint32_t size, float epsilon) {
  if (Traits::kFault == NormRopeFault::kEpsilonForgotten) epsilon = 0;
  return 1.0f / SquareRoot(squares / static_cast<float>(size) + epsilon);
}

// Some heads of a row.
template <typename Traits, typename Element>
struct HeadsOfRow {
  const RopeWriteArguments& a;
  const typename Element::Word* in;  // of the row
  uint32_t size;                     // of a head
  uint32_t first, count;             // heads

  // With its bias.
  TANDEM_HOST_DEVICE_INLINE float At(uint32_t i) const {
    const float x = Element::Load(in[i]);
    const bool biased = a.bias != nullptr && Traits::kFault != NormRopeFault::kBiasForgotten;
    return biased ? x + a.bias[i] : x;
  }

  // The squares of each head, in the first of its pairs' lanes: pairs of elements that are half a
  // head apart, and a tree of those.
  TANDEM_HOST_DEVICE void SumHeads(const Block& block, RopeWriteShared& shared) const {
    const uint32_t half = size / 2, pairs = count * half;
    block.Threads([&](int t) {
      for (uint32_t i = t; i < pairs; i += Traits::kThreads) {
        const uint32_t at = (first + i / half) * size + i % half;
        const float x0 = At(at), x1 = At(at + half);
        shared.lanes[i] = Fma(x1, x1, x0 * x0);
      }
    });
    uint32_t step = 1;
    while (step < half) step *= 2;
    for (step /= 2; step > 0; step /= 2) {
      block.Threads([&](int t) {
        for (uint32_t i = t; i < pairs; i += Traits::kThreads) {
          if (i % half < step && i % half + step < half) shared.lanes[i] += shared.lanes[i + step];
        }
      });
    }
  }

  // The scale of all queries (part 0) or keys (1): lane i % kNormLanes has the squares of the
  // groups i of kNormGroup numbers, ascending.
  TANDEM_HOST_DEVICE void ScaleTogether(const Block& block, RopeWriteShared& shared,
                                        uint32_t part) const {
    const uint32_t begin = part == 0 ? 0 : a.heads * size;
    const uint32_t width = (part == 0 ? a.heads : a.layer.kv_heads) * size;
    const bool wide = IsAligned(a.qkv) && size % kNormGroup == 0;
    block.Threads([&](int t) {
      for (uint32_t lane = t; lane < kNormLanes; lane += Traits::kThreads) {
        float sum = 0;
        TANDEM_NO_UNROLL
        for (uint32_t round = 0; round < width; round += kNormGroups * kNormGroup * kNormLanes) {
          NormNumbers<Element> some[kNormGroups] = {};
          const auto from = [&](uint32_t k) {
            return round + (k * kNormLanes + lane) * kNormGroup;
          };
          if (wide) {
            TANDEM_UNROLL
            for (uint32_t k = 0; k < kNormGroups; ++k) {
              some[k].Load(in + begin + (from(k) < width ? from(k) : 0));
            }
          }
          TANDEM_UNROLL
          for (uint32_t k = 0; k < kNormGroups; ++k) {
            TANDEM_UNROLL
            for (uint32_t j = 0; j < kNormGroup; ++j) {
              const uint32_t i = from(k) + j;
              if (i >= width) continue;
              const float x = wide && a.bias == nullptr ? some[k][j] : At(begin + i);
              sum = Fma(x, x, sum);
            }
          }
        }
        shared.lanes[lane] = sum;
      }
    });
    SumLanes<Traits>(block, shared.lanes);
    block.Threads([&](int t) {
      if (t == 0) shared.scales[part] = ScaleOf<Traits>(shared.lanes[0], width, a.epsilon);
    });
  }
};

// Norms queries and keys, rotates them by the positions of their rows, and writes keys and values
// to the cells of their rows. x of a block is the row, and y counts the row's blocks, of
// HeadsOfBlock heads each, of at most 2 · kNormLanes numbers. No two rows have one cell, but those
// that fill up.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void RopeWrite(const Block& block, RopeWriteShared& shared,
                                  const RopeWriteArguments& a) {
  const CacheRow& row = a.rows[block.x()];
  const uint32_t size = a.layer.head_size, half = size / 2;
  const uint32_t keys = a.heads, values = a.heads + a.layer.kv_heads;
  const uint32_t all = values + a.layer.kv_heads;
  const uint32_t of_block = HeadsOfBlock(Traits::kThreads, size), first = block.y() * of_block;
  const HeadsOfRow<Traits, Element> heads = {
      a, static_cast<const typename Element::Word*>(a.qkv) + uint64_t{block.x()} * all * size, size,
      first, all - first < of_block ? all - first : of_block};
  const bool normed = a.q_norm != nullptr && first < values;
  const bool together =
      (a.norm_together != 0) != (Traits::kFault == NormRopeFault::kHeadNormOfWidth);
  if (normed && together) {
    if (first < keys) heads.ScaleTogether(block, shared, 0);
    if (first + heads.count > keys) heads.ScaleTogether(block, shared, 1);
  } else if (normed) {
    heads.SumHeads(block, shared);
  }
  const bool all_turn = Traits::kFault == NormRopeFault::kAllRotated;
  const uint32_t turned = all_turn ? half : a.rotated_pairs;
  const uint64_t angle =
      uint64_t{Traits::kFault == NormRopeFault::kAngleOfCell ? row.cell : row.position} *
      a.rotated_pairs;
  const uint32_t page = Traits::kFault == NormRopeFault::kPagesIgnored
                            ? row.cell / kPageCells
                            : a.pages[row.first_page + row.cell / kPageCells];
  block.Threads([&](int t) {
    // A thread a pair of elements.
    for (uint32_t i = t; i < heads.count * half; i += Traits::kThreads) {
      const uint32_t head = first + i / half, pair = i % half;
      const bool query = head < keys, key = !query && head < values;
      bool turns = pair < turned && head < values;
      if (Traits::kFault == NormRopeFault::kKeyUnrotated && key) turns = false;
      const bool neighbours = Traits::kFault == NormRopeFault::kNeighboursPaired;
      uint32_t d0 = pair < turned ? pair : pair + turned;
      uint32_t d1 = pair < turned ? pair + turned : pair + half;
      if (neighbours) {
        d0 = 2 * pair;
        d1 = 2 * pair + 1;
      }
      float x0 = heads.At(head * size + d0), x1 = heads.At(head * size + d1);
      float weight0 = 1, weight1 = 1;
      if (normed && head < values) {
        const float* weights = query ? a.q_norm : a.k_norm;
        if (a.norm_together != 0) weights += (query ? head : head - keys) * size;
        const float scale = together ? shared.scales[query ? 0 : 1]
                                     : ScaleOf<Traits>(shared.lanes[i - pair], size, a.epsilon);
        weight0 = NormWeight<Traits>(weights[d0]);
        weight1 = NormWeight<Traits>(weights[d1]);
        x0 *= scale;
        x1 *= scale;
      }
      const bool weighed_later = Traits::kFault == NormRopeFault::kHeadNormAfterRotation;
      if (!weighed_later) {
        x0 = weight0 * x0;
        x1 = weight1 * x1;
      }
      float y0 = x0, y1 = x1;
      if (turns) {
        const uint64_t at = angle + (all_turn ? pair % a.rotated_pairs : pair);
        const float cosine = a.cosines[at], sine = a.sines[at];
        y0 = x0 * cosine - x1 * sine;
        y1 = x1 * cosine + x0 * sine;
      }
      if (weighed_later) {
        y0 = weight0 * y0;
        y1 = weight1 * y1;
      }
      if (query) {
        float* to = a.queries + (uint64_t{block.x()} * a.heads + head) * size;
        to[d0] = y0 * a.query_scale;
        to[d1] = y1 * a.query_scale;
        continue;
      }
      auto* out = static_cast<typename Element::Word*>(a.pool) +
                  a.layer.KeyOf(page, row.cell, key ? head - keys : head - values) +
                  (key ? 0 : a.layer.value_words);
      out[d0] = Element::Store(y0);
      out[d1] = Element::Store(y1);
    }
  });
}

enum class GateKind : uint32_t {
  kSilu,
  kGeluTanh,  // x · sigmoid(1.5958 (x + 0.044715 x³)), which is GELU's approximation by tanh
};

struct GateArguments {
  const void* in = nullptr;  // [rows, 2 * size]: the gate, and what goes through it
  void* out = nullptr;       // [rows, size]
  uint32_t size = 0;
  GateKind kind = GateKind::kSilu;
};
static_assert(sizeof(GateArguments) == 24);

// Numbers of a row that a block has: each thread loads kNormGroups groups of gates and of ups.
TANDEM_HOST_DEVICE_INLINE constexpr uint32_t GateColumn(uint32_t threads) {
  return threads * kNormGroups * kNormGroup;
}

// out = gate · sigmoid(z) · up, z the gate or what GateKind says. x of a block is the row, and y
// counts the row's blocks, of GateColumn numbers each.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void Gate(const Block& block, const GateArguments& a) {
  using Word = typename Element::Word;
  struct Some {
    NormNumbers<Element> gates, ups;
  };
  constexpr uint32_t kColumn = GateColumn(Traits::kThreads);
  const uint32_t first = block.y() * kColumn;
  const uint32_t count = a.size - first < kColumn ? a.size - first : kColumn;
  const auto* gates = static_cast<const Word*>(a.in) + uint64_t{block.x()} * 2 * a.size + first;
  const auto* ups = gates + a.size;
  auto* out = static_cast<Word*>(a.out) + uint64_t{block.x()} * a.size + first;
  const bool gelu = a.kind == GateKind::kGeluTanh && Traits::kFault != NormRopeFault::kSiluForGelu;
  const auto gated = [gelu](float gate, float up) {
    if (Traits::kFault == NormRopeFault::kGateForUp) {
      const float other = gate;
      gate = up;
      up = other;
    }
    constexpr float kTwiceRootOfTwoByPi = 0x1.988454p+0f;
    const float z = gelu ? kTwiceRootOfTwoByPi * (gate + 0.044715f * (gate * gate * gate)) : gate;
    // exp of no positive number, which may be infinite.
    const float power = Exp(z < 0 ? z : -z);
    const float activated = (z < 0 ? gate * power : gate) / (1.0f + power);
    return Element::Store(activated * up);
  };
  VisitRow<Traits>(
      block, a.size % kNormGroup == 0 && IsAligned(a.in) && IsAligned(a.out), count,
      [&](uint32_t i) {
        Some some = {};
        some.gates.Load(gates + i);
        some.ups.Load(ups + i);
        return some;
      },
      [&](const Some& some, uint32_t i) {
        Word words[kNormGroup];
        TANDEM_UNROLL
        for (uint32_t k = 0; k < kNormGroup; ++k) words[k] = gated(some.gates[k], some.ups[k]);
        StoreTogether<kNormGroup>(out + i, words);
      },
      [&](uint32_t i) { out[i] = gated(Element::Load(gates[i]), Element::Load(ups[i])); });
}

}  // namespace tandem::kernels
