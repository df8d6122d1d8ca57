// Attention (attention.h) with the products of queries and keys, and of weights and values, on
// tensor cores, for keys and values of 16 bits. Partials, and how they are put together, are the
// same; bits are others, because queries and weights are rounded to 16 bits, too.
//
// A tile is 16 queries: heads of one row, or of rows that read the same keys. Every row is computed
// by these tiles, a lone one in decoding, too, and a row of a product comes of its own row of
// queries alone, so neither its place in a tile nor the other queries show in a result. Queries
// that are not there are zeros. What a query does not see has weight 0, and what it does see stands
// there instead of the value, since a NaN of an earlier sequence would stay one times 0.
//
// Sums have this order, whatever the batch is: a score is a chain of steps of 16 elements. Weights
// are added up by 16 threads, each of every sixteenth position. A value is a chain of steps of 16
// positions within each chunk of a partial; chunks are added up in their order.
//
// A thread loads 16 bytes of a key or a value. To which product of a step a number belongs is free
// as long as both operands agree: so a thread's 8 elements of a key are 4 products in each of two
// steps, and its 8 elements of a value are columns of 8 products.
#pragma once

#include "torch/kernels/attention.h"
#include "torch/kernels/mma.h"

namespace tandem::kernels {

struct MmaAttentionTraits {
  static constexpr int kThreads = 256;
  static constexpr uint32_t kRowsTogether = 16;
  static constexpr AttentionFault kFault = AttentionFault::kNone;
};

// Elements of a value that a warp computes.
inline constexpr uint32_t kMmaColumnsOfWarp = 64;
// Words between rows in shared memory, so that threads of a warp reach for different banks.
inline constexpr uint32_t kScoreStride = kPartial + 8, kWordStride = kPartial + 8,
                          kSumStride = kMmaColumnsOfWarp + 8;

// Whether heads of this size, in 16 bits each, are whole loads.
inline constexpr bool MmaTakes(uint32_t head_size) {
  return head_size % 8 == 0 && head_size <= kMaxHeadSize;
}

template <typename Traits>
struct MmaShared {
  static constexpr uint32_t kWarps = Traits::kThreads / kWarp;
  static_assert(kWarps * kWarp == kPartial);  // a warp has 32 positions
  static_assert(kWordStride >= kMaxHeadSize + 8);

  // First scores, with queries behind them; then each warp's share of the values.
  alignas(16) float stage[kWarps * kMmaRows * kSumStride];
  alignas(16) uint16_t weights[kMmaRows * kWordStride];
  float parts[kMmaRows * kMmaRows];  // of a row's largest score, or sum of weights
  uint64_t keys[kPartial];           // where a position's key lies
  uint64_t query_at[kMmaRows];       // of a query
  uint64_t place[kMmaRows];          // of its partial
  float largest[kMmaRows];

  TANDEM_HOST_DEVICE_INLINE uint16_t* queries() {
    return reinterpret_cast<uint16_t*>(stage + kMmaRows * kScoreStride);
  }
};

// A tile's scores with 32 positions of each warp.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void ScoreTile(const Block& block, MmaShared<Traits>& shared,
                                  const AttentionArguments& a, uint32_t skipped, uint32_t count) {
  constexpr uint32_t kTiles = kWarp / kMmaColumns;  // of positions
  const uint32_t size = a.layer.head_size;
  const auto* pool = static_cast<const uint16_t*>(a.pool);
  block.Warps([&](const Warp& warp) {
    const uint32_t first = warp.number() * kWarp;
    Lanes<MmaSums> sums[kTiles];
    TANDEM_UNROLL
    for (uint32_t n = 0; n < kTiles; ++n) {
      warp.Each([&](int lane) { sums[n][lane] = {}; });
    }
    if (first < count && first + kWarp > skipped) {
      Lanes<const uint16_t*> keys[kTiles];
      TANDEM_UNROLL
      for (uint32_t n = 0; n < kTiles; ++n) {
        warp.Each([&](int lane) {
          const uint32_t i = first + n * kMmaColumns + lane / 4;
          keys[n][lane] = pool + shared.keys[i >= skipped && i < count ? i : skipped];
        });
      }
      TANDEM_NO_UNROLL
      for (uint32_t d = 0; d < size; d += 2 * kMmaStep) {
        Lanes<Quad> key[kTiles], upper, lower;
        warp.Each([&](int lane) {
          const uint32_t at = d + lane % 4 * 8;
          TANDEM_UNROLL
          for (uint32_t n = 0; n < kTiles; ++n) {
            key[n][lane] = LoadAs<Quad>(keys[n][lane] + (at < size ? at : 0));
          }
          AskTogether();
          const uint16_t* query = shared.queries() + lane / 4 * kWordStride + at;
          upper[lane] = LoadAs<Quad>(query);
          lower[lane] = LoadAs<Quad>(query + 8 * kWordStride);
        });
        TANDEM_UNROLL
        for (uint32_t step = 0; step < 2; ++step) {
          const bool swapped = Traits::kFault == AttentionFault::kHalvesSwapped;
          const uint32_t x = 2 * step, y = swapped ? 2 - x : x;
          Lanes<MmaA> queries;
          warp.Each([&](int lane) {
            const Quad &u = upper[lane], &l = lower[lane];
            queries[lane] = {{u.words[x], l.words[x], u.words[x + 1], l.words[x + 1]}};
          });
          TANDEM_UNROLL
          for (uint32_t n = 0; n < kTiles; ++n) {
            Lanes<MmaB> numbers;
            warp.Each([&](int lane) {
              numbers[lane] = {{key[n][lane].words[y], key[n][lane].words[y + 1]}};
            });
            MultiplyAdd<Element>(queries, numbers, sums[n]);
          }
        }
      }
    }
    TANDEM_UNROLL
    for (uint32_t n = 0; n < kTiles; ++n) {
      warp.Each([&](int lane) {
        TANDEM_UNROLL
        for (uint32_t v = 0; v < 4; ++v) {
          const uint32_t row = lane / 4 + v / 2 * 8;
          const uint32_t i = first + n * kMmaColumns + lane % 4 * 2 + v % 2;
          const bool counts = i >= skipped && i < count;
          const bool plain = Traits::kFault == AttentionFault::kQueriesUnscaled;
          const float score = sums[n][lane].values[v] * (plain ? 1 : a.scale);
          shared.stage[row * kScoreStride + i] = counts ? score : -0x1.fffffep127f;
        }
      });
    }
  });
}

// Each query's largest score and sum of weights, and weights in 16 bits.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void WeighTile(const Block& block, MmaShared<Traits>& shared,
                                  const AttentionArguments& a, uint32_t heads, uint32_t skipped,
                                  uint32_t count) {
  block.Threads([&](int t) {
    const float* scores = shared.stage + t / kMmaRows * kScoreStride + t % kMmaRows;
    float largest = scores[0];
    for (uint32_t i = kMmaRows; i < kPartial; i += kMmaRows) {
      if (scores[i] > largest) largest = scores[i];
    }
    shared.parts[t] = largest;
  });
  block.Threads([&](int t) {
    if (t >= static_cast<int>(kMmaRows)) return;
    float largest = shared.parts[t * kMmaRows];
    for (uint32_t i = 1; i < kMmaRows; ++i) {
      const float part = shared.parts[t * kMmaRows + i];
      if (part > largest) largest = part;
    }
    shared.largest[t] = largest;
    if (t < static_cast<int>(heads)) a.partial_largest[shared.place[t]] = largest;
  });
  block.Threads([&](int t) {
    const uint32_t row = t / kMmaRows;
    float sum = 0;
    for (uint32_t i = t % kMmaRows; i < kPartial; i += kMmaRows) {
      const bool counts = i >= skipped && i < count;
      const float score = shared.stage[row * kScoreStride + i] - shared.largest[row];
      const uint16_t weight = Element::Store(counts ? Exp(score) : 0);
      shared.weights[row * kWordStride + i] = weight;
      sum += Element::Load(weight);
    }
    shared.parts[t] = sum;
  });
  block.Threads([&](int t) {
    if (t >= static_cast<int>(heads)) return;
    float sum = shared.parts[t * kMmaRows];
    for (uint32_t i = 1; i < kMmaRows; ++i) sum += shared.parts[t * kMmaRows + i];
    a.partial_sums[shared.place[t]] = sum;
  });
}

// Weighed values: a warp has 64 elements, of the positions of a chunk.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void AddValues(const Block& block, MmaShared<Traits>& shared,
                                  const AttentionArguments& a, uint32_t heads, uint32_t skipped,
                                  uint32_t count) {
  constexpr uint32_t kTiles = kMmaColumnsOfWarp / kMmaColumns;
  const uint32_t size = a.layer.head_size;
  const uint32_t stretches = (size + kMmaColumnsOfWarp - 1) / kMmaColumnsOfWarp;
  const uint32_t ways = MmaShared<Traits>::kWarps / stretches;
  // A power of two of chunks.
  const uint32_t chunks = ways >= 8 ? 8 : ways >= 4 ? 4 : 2, chunk = kPartial / chunks;
  const auto* values = static_cast<const uint16_t*>(a.pool) + a.layer.value_words;
  block.Warps([&](const Warp& warp) {
    if (warp.number() >= chunks * stretches) return;
    const uint32_t first = warp.number() / stretches * chunk;
    const uint32_t stretch = warp.number() % stretches * kMmaColumnsOfWarp;
    Lanes<MmaSums> sums[kTiles];
    TANDEM_UNROLL
    for (uint32_t n = 0; n < kTiles; ++n) {
      warp.Each([&](int lane) { sums[n][lane] = {}; });
    }
    TANDEM_NO_UNROLL
    for (uint32_t from = first; from < first + chunk; from += kMmaStep) {
      if (from >= count || from + kMmaStep <= skipped) continue;  // all weights are 0
      Lanes<MmaA> weights;
      Lanes<Quad> value[4];
      warp.Each([&](int lane) {
        const uint32_t group = lane / 4, pair = lane % 4;
        const uint32_t at = stretch + group * 8;
        TANDEM_UNROLL
        for (uint32_t v = 0; v < 4; ++v) {
          const uint32_t i = from + 2 * pair + v % 2 + v / 2 * 8;
          const bool stale = Traits::kFault == AttentionFault::kStaleValues;
          const bool counts = (i >= skipped && i < count) || stale;
          value[v][lane] =
              LoadAs<Quad>(values + shared.keys[counts ? i : skipped] + (at < size ? at : 0));
        }
        AskTogether();
        TANDEM_UNROLL
        for (uint32_t v = 0; v < 4; ++v) {
          const uint32_t row = group + v % 2 * 8, i = from + 2 * pair + v / 2 * 8;
          weights[lane].words[v] = LoadAs<uint32_t>(shared.weights + row * kWordStride + i);
        }
      });
      TANDEM_UNROLL
      for (uint32_t n = 0; n < kTiles; ++n) {
        Lanes<MmaB> numbers;
        warp.Each([&](int lane) {
          TANDEM_UNROLL
          for (uint32_t v = 0; v < 2; ++v) {
            const uint32_t x = value[2 * v][lane].words[n / 2];
            const uint32_t y = value[2 * v + 1][lane].words[n / 2];
            numbers[lane].words[v] = n % 2 == 0 ? (x & 0xffff) | y << 16 : x >> 16 | (y & ~0xffffu);
          }
        });
        MultiplyAdd<Element>(weights, numbers, sums[n]);
      }
    }
    TANDEM_UNROLL
    for (uint32_t n = 0; n < kTiles; ++n) {
      warp.Each([&](int lane) {
        TANDEM_UNROLL
        for (uint32_t v = 0; v < 4; ++v) {
          const uint32_t row = warp.number() * kMmaRows + lane / 4 + v / 2 * 8;
          const uint32_t column = n * kMmaColumns + lane % 4 * 2 + v % 2;
          shared.stage[row * kSumStride + column] = sums[n][lane].values[v];
        }
      });
    }
  });
  block.Threads([&](int t) {
    for (uint32_t i = t; i < heads * size; i += Traits::kThreads) {
      const uint32_t row = i / size, d = i % size, in_stretch = d % kMmaColumnsOfWarp;
      const uint32_t column = in_stretch % 8 * kMmaColumns + in_stretch / 8;
      const bool lost = Traits::kFault == AttentionFault::kChunkLost;
      float sum = 0;
      for (uint32_t c = 0; c < (lost ? chunks - 1 : chunks); ++c) {
        const uint32_t warp = c * stretches + d / kMmaColumnsOfWarp;
        const float part = shared.stage[(warp * kMmaRows + row) * kSumStride + column];
        sum = c == 0 ? part : sum + part;
      }
      a.partial_values[shared.place[row] * size + d] = sum;
    }
  });
}

// As that of attention.h, tile by tile.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void AttendAll(const Block& block, MmaShared<Traits>& shared,
                                  const AttentionArguments& a, uint32_t number, uint32_t first_row,
                                  uint32_t all, uint32_t kv_head, uint32_t skipped,
                                  uint32_t count) {
  const uint32_t size = a.layer.head_size;
  const uint32_t whole = (size + 2 * kMmaStep - 1) / (2 * kMmaStep) * (2 * kMmaStep);
  TANDEM_NO_UNROLL
  for (uint32_t from = 0; from < all; from += kMmaRows) {
    const uint32_t heads = all - from < kMmaRows ? all - from : kMmaRows;
    PlaceHeads(block, shared, a, {number, first_row, kv_head, from, heads});
    block.Threads([&](int t) {
      for (uint32_t i = t; i < kMmaRows * whole; i += Traits::kThreads) {
        const uint32_t row = i / whole, d = i % whole;
        const float query = row < heads && d < size ? a.queries[shared.query_at[row] + d] : 0;
        shared.queries()[row * kWordStride + d] = Element::Store(query);
      }
    });
    ScoreTile<Traits, Element>(block, shared, a, skipped, count);
    WeighTile<Traits, Element>(block, shared, a, heads, skipped, count);
    AddValues<Traits, Element>(block, shared, a, heads, skipped, count);
  }
}

}  // namespace tandem::kernels
