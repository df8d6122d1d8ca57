// Attention of any number of rows over the pages of their sequences, for one layer.
//
// The positions that a row sees are cut into partials of kPartial positions, from position 0 on,
// whatever the batch is. One kernel computes each partial, another one puts a row's partials
// together in their order. So decoding, verification, a prompt and a tree give a row the same bits,
// a long context is read by many blocks at once, and neither the rows beside it nor the cells in
// which its positions lie show in a result.
//
// Grids do not depend on what rows see: blocks take the pass's partials in turn, from a list on the
// device. So one graph computes all passes of a shape (torch/graphs).
#pragma once

#include "torch/kernels/block.h"
#include "torch/kernels/cache_types.h"
#include "torch/kernels/numbers.h"

namespace tandem::kernels {

// Mistakes that tests make on purpose.
enum class AttentionFault {
  kNone,
  kLastPositionLost,
  kBranchesIgnored,     // a tree's row reads the cells of its positions' numbers
  kPagesIgnored,        // page i of a sequence is taken for page i of the pool
  kPartialsOfTheBatch,  // their length depends on the number of rows
  kSharesForgotten,     // partials count as if they had the same largest score
  kBarrierMissing,      // scores are weighed while others are still computed
  kWindowIgnored,
};

inline constexpr uint32_t kPartial = 256;

// kThreads: of a block, a power of two; kGroup: query heads of one key/value head at a time.
struct AttentionTraits {
  static constexpr int kThreads = 256;
  static constexpr int kGroup = 4;
  static constexpr AttentionFault kFault = AttentionFault::kNone;
};

struct AttentionArguments {
  const CacheRow* rows = nullptr;  // of the pass
  const uint32_t* pages = nullptr;
  const uint32_t* rest = nullptr;
  const uint32_t* partial_rows = nullptr;  // of each of the pass's partials: its row
  const void* pool = nullptr;              // in the type that keys and values are held in
  CacheLayer layer;
  uint32_t first_row = 0;  // that are computed: row_count from this one on
  uint32_t row_count = 0;
  uint32_t heads = 0;   // of queries; a multiple of layer.kv_heads
  uint32_t window = 0;  // of what a row sees, the last `window` positions count; 0: all
  uint32_t blocks = 0;  // of AttendPartials' grid
  float scale = 1;      // queries are multiplied by it

  const float* queries = nullptr;  // [row_count, heads, head_size], rotated
  void* out = nullptr;             // the same shape, of the pool's type

  // Of each partial of these rows and head: the largest score, the sum of the weights, and head_size
  // weighed values.
  float* partial_largest = nullptr;
  float* partial_sums = nullptr;
  float* partial_values = nullptr;
};
static_assert(sizeof(AttentionArguments) == 144);  // NVRTC lays it out alike

template <typename Traits>
struct AttentionShared {
  uint64_t keys[kPartial];  // where a position's key lies
  float queries[Traits::kGroup][kMaxHeadSize];
  float weights[Traits::kGroup][kPartial];
  float reduced[Traits::kGroup][kPartial];
};

template <typename Traits>
TANDEM_HOST_DEVICE uint32_t PartialLength(const AttentionArguments& a) {
  if (Traits::kFault == AttentionFault::kPartialsOfTheBatch && a.row_count > 1) return kPartial / 2;
  return kPartial;
}

template <typename Traits>
TANDEM_HOST_DEVICE uint32_t VisibleOf(const CacheRow& row) {
  if (Traits::kFault == AttentionFault::kLastPositionLost && row.position > 0) return row.position;
  return row.position + 1;
}

// The first position that counts for a row.
template <typename Traits>
TANDEM_HOST_DEVICE uint32_t BeginOf(const AttentionArguments& a, uint32_t visible) {
  if (Traits::kFault == AttentionFault::kWindowIgnored) return 0;
  return a.window == 0 || a.window >= visible ? 0 : visible - a.window;
}

// Partial `slot` of these rows, for the query heads of one key/value head.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void AttendPartial(const Block& block, AttentionShared<Traits>& shared,
                                      const AttentionArguments& a, uint32_t slot,
                                      uint32_t kv_head) {
  constexpr uint32_t kThreads = Traits::kThreads;
  constexpr uint32_t kGroup = Traits::kGroup;
  const uint32_t partial = a.rows[a.first_row].first_partial + slot;
  const uint32_t number = a.partial_rows[partial];
  const CacheRow& row = a.rows[number];
  const uint32_t length = PartialLength<Traits>(a);
  const uint32_t first = (partial - row.first_partial) * length;
  const uint32_t visible = VisibleOf<Traits>(row);
  const uint32_t begin = BeginOf<Traits>(a, visible);
  if (first >= visible || first + length <= begin) return;
  const uint32_t skipped = begin > first ? begin - first : 0;  // of the partial's positions
  const uint32_t count = visible - first < length ? visible - first : length;
  const uint32_t size = a.layer.head_size, group = a.heads / a.layer.kv_heads;
  const auto* pool = static_cast<const typename Element::Word*>(a.pool);
  block.Threads([&](int t) {
    for (uint32_t i = t; i < count; i += kThreads) {
      if (i < skipped) continue;
      const uint32_t position = first + i;
      const bool straight =
          position < row.straight || Traits::kFault == AttentionFault::kBranchesIgnored;
      const uint32_t cell = straight ? position : a.rest[row.first_rest + position - row.straight];
      const uint32_t page = Traits::kFault == AttentionFault::kPagesIgnored
                                ? cell / kPageCells
                                : a.pages[row.first_page + cell / kPageCells];
      shared.keys[i] = a.layer.KeyOf(page, cell, kv_head);
    }
  });
  for (uint32_t from = 0; from < group; from += kGroup) {
    const uint32_t heads = group - from < kGroup ? group - from : kGroup;
    const uint32_t own = kv_head * group + from;
    const uint64_t query = (uint64_t{number - a.first_row} * a.heads + own) * size;
    const uint64_t first_head = uint64_t{slot} * a.heads + own;
    block.Threads([&](int t) {
      for (uint32_t i = t; i < heads * size; i += kThreads) {
        shared.queries[i / size][i % size] = a.queries[query + i] * a.scale;
      }
    });
    // A thread a position: the products of a head's elements are added up in their order.
    block.Threads([&](int t) {
      for (uint32_t i = t; i < kPartial; i += kThreads) {
        float scores[kGroup] = {};
        const bool counts = i >= skipped && i < count;
        if (counts) {
          const typename Element::Word* key = pool + shared.keys[i];
          for (uint32_t d = 0; d < size; ++d) {
            const float element = Element::Load(key[d]);
            for (uint32_t h = 0; h < heads; ++h) {
              scores[h] = Fma(shared.queries[h][d], element, scores[h]);
            }
          }
        }
        for (uint32_t h = 0; h < heads; ++h) {
          shared.weights[h][i] = scores[h];
          shared.reduced[h][i] = counts ? scores[h] : -0x1.fffffep127f;
        }
      }
    });
    // Both reductions go over all places, so that their tree does not depend on `count`.
    const auto reduce = [&](auto combine) {
      for (uint32_t half = kPartial / 2; half > 0; half /= 2) {
        block.Threads([&](int t) {
          for (uint32_t i = t; i < half * heads; i += kThreads) {
            float* values = shared.reduced[i / half];
            values[i % half] = combine(values[i % half], values[i % half + half]);
          }
        });
      }
    };
    reduce([](float x, float y) { return x > y ? x : y; });
    block.Threads([&](int t) {
      if (t >= static_cast<int>(heads)) return;
      a.partial_largest[first_head + t] = shared.reduced[t][0];
    });
    float largest[kGroup];
    for (uint32_t h = 0; h < heads; ++h) largest[h] = block.Read(shared.reduced[h][0]);
    block.Threads([&](int t) {
      for (uint32_t i = t; i < kPartial; i += kThreads) {
        const bool counts = i >= skipped && i < count;
        for (uint32_t h = 0; h < heads; ++h) {
          const float weight = counts ? Exp(shared.weights[h][i] - largest[h]) : 0;
          shared.weights[h][i] = weight;
          const bool early = Traits::kFault == AttentionFault::kBarrierMissing;
          shared.reduced[h][i] = early ? shared.weights[h][(i + 1) % kPartial] : weight;
        }
      }
    });
    reduce([](float x, float y) { return x + y; });
    block.Threads([&](int t) {
      if (t < static_cast<int>(heads)) {
        a.partial_sums[first_head + t] = shared.reduced[t][0];
      }
      // A thread an element: values are added up in the order of positions.
      for (uint32_t i = t; i < heads * size; i += kThreads) {
        const uint32_t h = i / size, d = i % size;
        const typename Element::Word* values = pool + a.layer.value_words + d;
        float sum = 0;
        for (uint32_t j = skipped; j < count; ++j) {
          sum = Fma(shared.weights[h][j], Element::Load(values[shared.keys[j]]), sum);
        }
        a.partial_values[(first_head + h) * size + d] = sum;
      }
    });
  }
}

// All partials of these rows, by a.blocks blocks.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void AttendPartials(const Block& block, AttentionShared<Traits>& shared,
                                       const AttentionArguments& a) {
  const CacheRow& last = a.rows[a.first_row + a.row_count - 1];
  const uint32_t partials = last.first_partial + last.partials - a.rows[a.first_row].first_partial;
  TANDEM_NO_UNROLL
  for (uint32_t i = block.x(); i < partials * a.layer.kv_heads; i += a.blocks) {
    AttendPartial<Traits, Element>(block, shared, a, i / a.layer.kv_heads, i % a.layer.kv_heads);
  }
}

// Puts a row's partials together in their order, for kThreads numbers of its result a block: x is the
// row, and y counts blocks. A row that fills up gets zeros.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void CombinePartials(const Block& block, const AttentionArguments& a) {
  const CacheRow& row = a.rows[a.first_row + block.x()];
  const uint32_t size = a.layer.head_size, length = PartialLength<Traits>(a);
  const uint32_t visible = VisibleOf<Traits>(row);
  const uint32_t begin = BeginOf<Traits>(a, visible) / length;
  const uint32_t end = row.partials == 0 ? begin : (visible + length - 1) / length;
  const uint64_t slot = row.first_partial - a.rows[a.first_row].first_partial;
  block.Threads([&](int t) {
    const uint32_t i = block.y() * Traits::kThreads + t;
    if (i >= a.heads * size) return;
    const uint32_t head = i / size;
    const auto at = [&](uint32_t partial) { return (slot + partial) * a.heads + head; };
    float largest = begin < end ? a.partial_largest[at(begin)] : 0;
    for (uint32_t p = begin + 1; p < end; ++p) {
      const float own = a.partial_largest[at(p)];
      if (own > largest) largest = own;
    }
    float sum = 0, value = 0;
    for (uint32_t p = begin; p < end; ++p) {
      const bool forgotten = Traits::kFault == AttentionFault::kSharesForgotten;
      const float share = forgotten ? 1 : Exp(a.partial_largest[at(p)] - largest);
      sum = Fma(a.partial_sums[at(p)], share, sum);
      value = Fma(a.partial_values[at(p) * size + i % size], share, value);
    }
    static_cast<typename Element::Word*>(a.out)[uint64_t{block.x()} * a.heads * size + i] =
        Element::Store(begin < end ? value / sum : 0);
  });
}

}  // namespace tandem::kernels
