// Attention of any number of rows over the pages of their sequences, for one layer.
//
// The positions that a row sees are cut into partials of kPartial positions, from position 0 on,
// whatever the batch is. One kernel computes each partial, another one puts a row's partials
// together in their order. So decoding, verification, a prompt and a tree give a row the same bits,
// a long context is read by many blocks at once, and neither the rows beside it nor the cells in
// which its positions lie show in a result.
//
// Rows of one sequence, as a block of draft tokens or a piece of a prompt, read most of their keys
// and values together (RowsTogether). Each row's sums are its own, and have the same order, whoever
// reads with it.
//
// Grids do not depend on what rows see: blocks take the pass's partials one after the other, from a
// list on the device. So one graph computes all passes of a shape (torch/graphs).
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
  kSequencesMixed,  // rows beside each other read the keys of the first one
  // Of attention_mma.h.
  kStaleValues,  // values that a row does not see are multiplied by its weight for them, 0
  kQueriesUnscaled,
  kHalvesSwapped,     // the products of a step are others of a key than of a query
  kChunkLost,         // the last positions of a partial do not count
  kQueriesOfOneTile,  // all tiles have those of the first one
  kTilesSwapped,      // a tile's weights are taken for its neighbour's
  kStagedEarly,       // sums are written over weights that other warps still read
  kWeightsLost,       // sums are written over weights of tiles that have their turn later
};

inline constexpr uint32_t kPartial = 256;

// kThreads: of a block, a power of two of whole warps. kGroup: query heads, of one row or of
// several, that read a key at a time; kPairs: the same where there are more than kGroup. Multiples
// of 4. RowsTogether: rows of one sequence that see a whole partial in the cells of its positions
// read the same keys and values, so one block computes them together: those of one stretch of so
// many rows of a pass, where `group` query heads of a row read a key.
struct AttentionTraits {
  static constexpr uint32_t RowsTogether(uint32_t /*group*/) { return 8; }
  static constexpr int kThreads = 256;
  static constexpr int kGroup = 4;
  static constexpr int kPairs = 8;
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

  // Of each partial of these rows and head: the largest score, the sum of the weights, and
  // head_size weighed values.
  float* partial_largest = nullptr;
  float* partial_sums = nullptr;
  float* partial_values = nullptr;
};
static_assert(sizeof(AttentionArguments) == 144);  // NVRTC lays it out alike

// Four numbers that shared memory gives a thread at once.
struct alignas(16) Four {
  float values[4];
};

template <typename Traits>
struct AttentionShared {
  static constexpr uint32_t kPairs = Traits::kPairs;
  static constexpr uint32_t kStageBytes = 16384;
  static_assert(kStageBytes >= kPairs * kPartial * sizeof(float));

  alignas(
      16) float stage[kStageBytes / sizeof(float)];  // what is reduced; values of some positions
  alignas(16) float numbers[kPairs * kMaxHeadSize];  // queries; weighed values so far
  alignas(16) float weights[kPartial * kPairs];      // of a position those of all heads
  uint64_t keys[kPartial];                           // where a position's key lies
  uint64_t query_at[kPairs];                         // of a head
  uint64_t place[kPairs];                            // of its partial
  float largest[kPairs];
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

// Whether keys and values may be read by 16 bytes: every head begins at a multiple of these.
template <typename Element>
TANDEM_HOST_DEVICE bool IsWide(const AttentionArguments& a) {
  const CacheLayer& layer = a.layer;
  const uint64_t words = layer.offset | layer.page_words | layer.value_words | layer.cell_words |
                         layer.head_words | layer.head_size;
  return words % kPerQuad<Element> == 0 && reinterpret_cast<uint64_t>(a.pool) % sizeof(Quad) == 0;
}

// Adds a key's products with some queries, each in the order of the elements.
template <typename Element, uint32_t kPairs>
TANDEM_HOST_DEVICE void AddProducts(const typename Element::Word* key, const float* queries,
                                    uint32_t pairs, uint32_t size, bool wide,
                                    float (&scores)[kPairs]) {
  constexpr uint32_t kBatch = kInFlight * kPerQuad<Element>;
  uint32_t d = 0;
  TANDEM_NO_UNROLL
  for (; wide && d + kBatch <= size; d += kBatch) {
    Quad quads[kInFlight];
    for (uint32_t q = 0; q < kInFlight; ++q) {
      quads[q] = LoadAs<Quad>(key + d + q * kPerQuad<Element>);
    }
    AskTogether();
    TANDEM_UNROLL
    for (uint32_t i = 0; i < kBatch; i += 4) {
      TANDEM_UNROLL
      for (uint32_t h = 0; h < pairs; ++h) {
        const Four four = LoadAs<Four>(queries + h * kMaxHeadSize + d + i);
        for (uint32_t e = 0; e < 4; ++e) {
          const uint32_t at = i + e;
          const float element =
              ElementOf<Element>(quads[at / kPerQuad<Element>], at % kPerQuad<Element>);
          scores[h] = Fma(four.values[e], element, scores[h]);
        }
      }
    }
  }
  TANDEM_NO_UNROLL
  for (; d < size; ++d) {
    const float element = Element::Load(key[d]);
    TANDEM_UNROLL
    for (uint32_t h = 0; h < pairs; ++h) {
      scores[h] = Fma(queries[h * kMaxHeadSize + d], element, scores[h]);
    }
  }
}

// Values of `count` positions into shared memory, those of a position side by side. keys: of these.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void StageValues(const Block& block, float* stage,
                                    const typename Element::Word* values, const uint64_t* keys,
                                    uint32_t count, uint32_t size, bool wide) {
  using Word = typename Element::Word;
  constexpr uint32_t kThreads = Traits::kThreads;
  auto* to = reinterpret_cast<unsigned char*>(stage);
  block.Threads([&](int t) {
    if (!wide) {
      TANDEM_NO_UNROLL
      for (uint32_t i = t; i < count * size; i += kThreads) {
        StoreAs<Word>(to + i * sizeof(Word), values[keys[i / size] + i % size]);
      }
      return;
    }
    const uint32_t a_row = size / kPerQuad<Element>, quads = count * a_row;
    TANDEM_NO_UNROLL
    for (uint32_t first = 0; first < quads; first += kInFlight * kThreads) {
      Quad loaded[kInFlight];
      for (uint32_t q = 0; q < kInFlight; ++q) {
        const uint32_t at = first + q * kThreads + t, i = at < quads ? at : quads - 1;
        loaded[q] =
            LoadAs<Quad>(values + keys[i / a_row] + uint64_t{i % a_row} * kPerQuad<Element>);
      }
      AskTogether();
      for (uint32_t q = 0; q < kInFlight; ++q) {
        const uint32_t at = first + q * kThreads + t;
        if (at < quads) StoreAs<Quad>(to + at * sizeof(Quad), loaded[q]);
      }
    }
  });
}

// Whether a row sees a whole partial, which begins at position `first`, in the cells of its
// positions.
template <typename Traits>
TANDEM_HOST_DEVICE bool SeesAll(const AttentionArguments& a, const CacheRow& row, uint32_t first) {
  const uint32_t visible = VisibleOf<Traits>(row), end = first + kPartial;
  return PartialLength<Traits>(a) == kPartial && end <= visible && end <= row.straight &&
         first >= BeginOf<Traits>(a, visible);
}

// Rows that a block computes together: `count` from `first` on; 0: another block does.
struct RowsOfBlock {
  uint32_t first, count;
};

// For the partial of row `number` that begins at position `first`.
template <typename Traits>
TANDEM_HOST_DEVICE RowsOfBlock RowsTogether(const AttentionArguments& a, uint32_t number,
                                            uint32_t first) {
  if (!SeesAll<Traits>(a, a.rows[number], first)) return {number, 1};
  const uint32_t page = a.rows[number].first_page;
  const uint32_t most = Traits::RowsTogether(a.heads / a.layer.kv_heads);
  const uint32_t stretch = number / most * most;
  const uint32_t begin = stretch < a.first_row ? a.first_row : stretch;
  const uint32_t last = a.first_row + a.row_count;
  const uint32_t end = stretch + most < last ? stretch + most : last;
  const auto shares = [&](uint32_t other) {
    const CacheRow& row = a.rows[other];
    const bool mixed = Traits::kFault == AttentionFault::kSequencesMixed;
    return (row.first_page == page || mixed) && SeesAll<Traits>(a, row, first);
  };
  uint32_t low = number, high = number + 1;
  TANDEM_NO_UNROLL
  while (low > begin && shares(low - 1)) --low;
  TANDEM_NO_UNROLL
  while (high < end && shares(high)) ++high;
  // They take the partials one after the other, so that all blocks have some.
  const uint32_t rows = high - low;
  if (number != low + first / kPartial % rows) return {low, 0};
  return {low, rows};
}

// Of the rows and heads that share a partial's keys, `heads` from `from` on.
struct SomeHeads {
  uint32_t number, first_row, kv_head, from, heads;
};

// Where their queries and partial results lie.
template <typename Shared>
TANDEM_HOST_DEVICE void PlaceHeads(const Block& block, Shared& shared, const AttentionArguments& a,
                                   const SomeHeads& some) {
  const uint32_t group = a.heads / a.layer.kv_heads;
  block.Threads([&](int t) {
    if (t >= static_cast<int>(some.heads)) return;
    const uint32_t row = some.first_row + (some.from + t) / group;
    const uint32_t head = some.kv_head * group + (some.from + t) % group;
    const uint32_t slot =
        a.rows[row].first_partial - a.rows[a.first_row].first_partial + some.number;
    shared.query_at[t] = (uint64_t{row - a.first_row} * a.heads + head) * a.layer.head_size;
    shared.place[t] = uint64_t{slot} * a.heads + head;
  });
}

// Partial `number` of its row, and of the rows that go with it, for the query heads of one
// key/value head: `all` heads, row by row, some at a time. Of its positions `skipped` to count - 1
// count.
template <typename Traits, typename Element, uint32_t kPairs>
TANDEM_HOST_DEVICE void AttendHeads(const Block& block, AttentionShared<Traits>& shared,
                                    const AttentionArguments& a, uint32_t number,
                                    uint32_t first_row, uint32_t all, uint32_t kv_head,
                                    uint32_t skipped, uint32_t count) {
  using Word = typename Element::Word;
  constexpr uint32_t kThreads = Traits::kThreads;
  const uint32_t size = a.layer.head_size;
  const auto* pool = static_cast<const Word*>(a.pool);
  const bool wide = IsWide<Element>(a);
  for (uint32_t from = 0; from < all; from += kPairs) {
    const uint32_t heads = all - from < kPairs ? all - from : kPairs;
    const uint32_t pairs = Unrolled<kPairs>(heads);
    PlaceHeads(block, shared, a, {number, first_row, kv_head, from, heads});
    // Heads that are not there have queries of 0, and nobody reads what comes of them.
    block.Threads([&](int t) {
      for (uint32_t i = t; i < pairs * size; i += kThreads) {
        const uint32_t h = i / size, d = i % size;
        shared.numbers[h * kMaxHeadSize + d] =
            h < heads ? a.queries[shared.query_at[h] + d] * a.scale : 0;
      }
    });
    // A thread per position: the products of a head's elements are added up in their order.
    block.Threads([&](int t) {
      for (uint32_t i = t; i < kPartial; i += kThreads) {
        float scores[kPairs] = {};
        const bool counts = i >= skipped && i < count;
        const uint32_t warp = i / kWarp * kWarp;
        if (warp < count && warp + kWarp > skipped) {  // of a warp all threads, or none
          const uint64_t key = shared.keys[counts ? i : skipped];
          AddProducts<Element>(pool + key, shared.numbers, pairs, size, wide, scores);
        }
        TANDEM_UNROLL
        for (uint32_t h = 0; h < pairs; ++h) {
          shared.weights[i * kPairs + h] = scores[h];
          shared.stage[h * kPartial + i] = counts ? scores[h] : -0x1.fffffep127f;
        }
      }
    });
    // Both reductions go over all places, so that their tree does not depend on `count`.
    const auto reduce = [&](auto combine) {
      for (uint32_t half = kPartial / 2; half > 0; half /= 2) {
        block.Threads([&](int t) {
          for (uint32_t i = t; i < half * heads; i += kThreads) {
            float* values = shared.stage + i / half * kPartial;
            values[i % half] = combine(values[i % half], values[i % half + half]);
          }
        });
      }
    };
    reduce([](float x, float y) { return x > y ? x : y; });
    block.Threads([&](int t) {
      if (t >= static_cast<int>(heads)) return;
      a.partial_largest[shared.place[t]] = shared.largest[t] = shared.stage[t * kPartial];
    });
    block.Threads([&](int t) {
      for (uint32_t i = t; i < kPartial; i += kThreads) {
        const bool counts = i >= skipped && i < count;
        for (uint32_t h = 0; h < heads; ++h) {
          float& weight = shared.weights[i * kPairs + h];
          weight = counts ? Exp(weight - shared.largest[h]) : 0;
          const bool early = Traits::kFault == AttentionFault::kBarrierMissing;
          shared.stage[h * kPartial + i] =
              early ? shared.weights[(i + 1) % kPartial * kPairs + h] : weight;
        }
      }
    });
    reduce([](float x, float y) { return x + y; });
    block.Threads([&](int t) {
      if (t < static_cast<int>(heads)) {
        a.partial_sums[shared.place[t]] = shared.stage[t * kPartial];
      }
      for (uint32_t i = t; i < pairs * size; i += kThreads) {
        shared.numbers[i / size * kMaxHeadSize + i % size] = 0;
      }
    });
    // A thread per element: values are added up in the order of positions.
    const uint32_t stage = AttentionShared<Traits>::kStageBytes / (size * sizeof(Word));
    TANDEM_NO_UNROLL
    for (uint32_t begins = skipped; begins < count; begins += stage) {
      const uint32_t staged = count - begins < stage ? count - begins : stage;
      StageValues<Traits, Element>(block, shared.stage, pool + a.layer.value_words,
                                   shared.keys + begins, staged, size, wide);
      block.Threads([&](int t) {
        const auto* values = reinterpret_cast<const unsigned char*>(shared.stage);
        for (uint32_t d = t; d < size; d += kThreads) {
          float sums[kPairs];
          TANDEM_UNROLL
          for (uint32_t h = 0; h < pairs; ++h) sums[h] = shared.numbers[h * kMaxHeadSize + d];
          for (uint32_t j = 0; j < staged; ++j) {
            const float value = Element::Load(LoadAs<Word>(values + (j * size + d) * sizeof(Word)));
            TANDEM_UNROLL
            for (uint32_t h = 0; h < pairs; h += 4) {
              const Four four = LoadAs<Four>(shared.weights + (begins + j) * kPairs + h);
              for (uint32_t e = 0; e < 4; ++e) {
                sums[h + e] = Fma(four.values[e], value, sums[h + e]);
              }
            }
          }
          TANDEM_UNROLL
          for (uint32_t h = 0; h < pairs; ++h) shared.numbers[h * kMaxHeadSize + d] = sums[h];
        }
      });
    }
    block.Threads([&](int t) {
      for (uint32_t i = t; i < heads * size; i += kThreads) {
        const uint32_t h = i / size, d = i % size;
        a.partial_values[shared.place[h] * size + d] = shared.numbers[h * kMaxHeadSize + d];
      }
    });
  }
}

// Partial `number` as above, for as many heads at a time as there are.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void AttendAll(const Block& block, AttentionShared<Traits>& shared,
                                  const AttentionArguments& a, uint32_t number, uint32_t first_row,
                                  uint32_t all, uint32_t kv_head, uint32_t skipped,
                                  uint32_t count) {
  if (all > Traits::kGroup) {
    AttendHeads<Traits, Element, Traits::kPairs>(block, shared, a, number, first_row, all, kv_head,
                                                 skipped, count);
  } else {
    AttendHeads<Traits, Element, Traits::kGroup>(block, shared, a, number, first_row, all, kv_head,
                                                 skipped, count);
  }
}

// Partial `slot` of these rows, for the query heads of one key/value head, and the same partial of
// rows that read the same keys. Shared: AttentionShared, or that of attention_mma.h.
template <typename Traits, typename Element, typename Shared>
TANDEM_HOST_DEVICE void AttendPartial(const Block& block, Shared& shared,
                                      const AttentionArguments& a, uint32_t slot,
                                      uint32_t kv_head) {
  constexpr uint32_t kThreads = Traits::kThreads;
  const uint32_t partial = a.rows[a.first_row].first_partial + slot;
  const uint32_t number = a.partial_rows[partial];
  const CacheRow& row = a.rows[number];
  const uint32_t length = PartialLength<Traits>(a);
  const uint32_t first = (partial - row.first_partial) * length;
  const uint32_t visible = VisibleOf<Traits>(row);
  const uint32_t begin = BeginOf<Traits>(a, visible);
  if (first >= visible || first + length <= begin) return;
  const RowsOfBlock rows = RowsTogether<Traits>(a, number, first);
  if (rows.count == 0) return;
  const uint32_t skipped = begin > first ? begin - first : 0;  // of the partial's positions
  const uint32_t count = visible - first < length ? visible - first : length;
  block.Threads([&](int t) {
    const bool stale = Traits::kFault == AttentionFault::kStaleValues;
    for (uint32_t i = t; i < (stale ? length : count); i += kThreads) {
      if (i < skipped && !stale) continue;
      const uint32_t position = first + i;
      const bool straight = position < row.straight || i >= count ||
                            Traits::kFault == AttentionFault::kBranchesIgnored;
      const uint32_t cell = straight ? position : a.rest[row.first_rest + position - row.straight];
      const uint32_t page = Traits::kFault == AttentionFault::kPagesIgnored
                                ? cell / kPageCells
                                : a.pages[row.first_page + cell / kPageCells];
      shared.keys[i] = a.layer.KeyOf(page, cell, kv_head);
    }
  });
  const uint32_t all = rows.count * (a.heads / a.layer.kv_heads);
  AttendAll<Traits, Element>(block, shared, a, partial - row.first_partial, rows.first, all,
                             kv_head, skipped, count);
}

// All partials of these rows, by a.blocks blocks.
template <typename Traits, typename Element, typename Shared>
TANDEM_HOST_DEVICE void AttendPartials(const Block& block, Shared& shared,
                                       const AttentionArguments& a) {
  const CacheRow& last = a.rows[a.first_row + a.row_count - 1];
  const uint32_t partials = last.first_partial + last.partials - a.rows[a.first_row].first_partial;
  TANDEM_NO_UNROLL
  for (uint32_t i = block.x(); i < partials * a.layer.kv_heads; i += a.blocks) {
    AttendPartial<Traits, Element>(block, shared, a, i / a.layer.kv_heads, i % a.layer.kv_heads);
  }
}

// Puts a row's partials together in their order, for kThreads numbers of its result a block: x is
// the row, and y counts blocks. A row that fills up gets zeros.
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
    TANDEM_NO_UNROLL
    for (uint32_t from = begin; from < end; from += kInFlight) {
      float own[kInFlight];
      for (uint32_t p = 0; p < kInFlight; ++p) {
        own[p] = a.partial_largest[at(from + p < end ? from + p : from)];
      }
      for (uint32_t p = 0; p < kInFlight; ++p) {
        if (own[p] > largest) largest = own[p];
      }
    }
    float sum = 0, value = 0;
    TANDEM_NO_UNROLL
    for (uint32_t from = begin; from < end; from += kInFlight) {
      float own[kInFlight], sums[kInFlight], values[kInFlight];
      for (uint32_t p = 0; p < kInFlight; ++p) {
        const uint64_t place = at(from + p < end ? from + p : from);
        own[p] = a.partial_largest[place];
        sums[p] = a.partial_sums[place];
        values[p] = a.partial_values[place * size + i % size];
      }
      for (uint32_t p = 0; p < kInFlight && from + p < end; ++p) {
        const bool forgotten = Traits::kFault == AttentionFault::kSharesForgotten;
        const float share = forgotten ? 1 : Exp(own[p] - largest);
        sum = Fma(sums[p], share, sum);
        value = Fma(values[p], share, value);
      }
    }
    static_cast<typename Element::Word*>(a.out)[uint64_t{block.x()} * a.heads * size + i] =
        Element::Store(begin < end ? value / sum : 0);
  });
}

}  // namespace tandem::kernels
