// Attention (attention.h) with the products of queries and keys, and of weights and values, on
// tensor cores, for keys and values of 16 bits. Partials, and how they are put together, are the
// same; bits are others, because queries and weights are rounded to 16 bits, too.
//
// A tile is 16 queries: heads of one row, or of rows that read the same keys. A block has up to
// four tiles at a time: it reads a key once for all of them, and a value once for two, because sums
// of four would take the registers of two blocks, and one block alone leaves memory idle while it
// computes, in decoding, too. Those that are not there cost a branch. Every row is computed by
// these tiles, a lone one as well, and a row of a product comes of its own row of queries alone, so
// neither its place in a tile nor the other queries show in a result. Queries that are not there
// are zeros. What a query does not see has weight 0, and what it does see stands there instead of
// the value, since a NaN of an earlier sequence would stay one times 0.
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

// Tiles of queries that a block has at a time, and of these those that a value is read for.
inline constexpr uint32_t kMmaTiles = 4, kMmaValueTiles = 2;
inline constexpr uint32_t kMmaQueries = kMmaTiles * kMmaRows;

struct MmaAttentionTraits {
  static constexpr int kThreads = 256;
  // As many as fill a block's tiles, but not more than 16 of a small group: each looks for all.
  static constexpr uint32_t RowsTogether(uint32_t group) {
    return group <= 4 ? 16 : group <= kMmaQueries ? kMmaQueries / group : 1;
  }
  static constexpr AttentionFault kFault = AttentionFault::kNone;
};

// Elements of a value that a warp computes.
inline constexpr uint32_t kMmaColumnsOfWarp = 64;
// Threads that add up a query's weights.
inline constexpr uint32_t kMmaWays = 16;
// Rows of a tile whose values are put together at a time.
inline constexpr uint32_t kStagedRows = kMmaRows / 2;
// Words between rows in shared memory, so that threads of a warp reach for different banks.
inline constexpr uint32_t kWordStride = kPartial + 8, kPartStride = kMmaQueries + 8,
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

  // Weights that are still to be used, and behind them what is staged, in words of float32.
  static constexpr uint32_t kKept = (kMmaTiles - kMmaValueTiles) * kMmaRows * kWordStride / 2;
  static constexpr uint32_t kStage = kKept + kWarps * kStagedRows * kSumStride;
  static_assert(kStage >= kMmaQueries * kWordStride / 2);

  // Queries, and then their weights, as 16-bit words; where weights are used up, each warp's share
  // of the values.
  alignas(16) float stage[kStage];
  float parts[kPartial / 8 * kPartStride];  // of a query's largest score, or sum of weights
  uint64_t keys[kPartial];                  // where a position's key lies
  uint64_t query_at[kMmaQueries];           // of a query
  uint64_t place[kMmaQueries];              // of its partial
  float largest[kMmaQueries];

  TANDEM_HOST_DEVICE_INLINE uint16_t* RowOf(uint32_t query) {
    return reinterpret_cast<uint16_t*>(stage) + query * kWordStride;
  }
};
static_assert(sizeof(MmaShared<MmaAttentionTraits>) <= 48 * 1024);

// Queries of a block, and which of a partial's positions count for them: `skipped` to count - 1.
struct MmaWork {
  uint32_t heads, skipped, count;

  TANDEM_HOST_DEVICE_INLINE uint32_t tiles() const { return (heads + kMmaRows - 1) / kMmaRows; }
  TANDEM_HOST_DEVICE_INLINE bool Counts(uint32_t i) const { return i >= skipped && i < count; }
  // Whether one of `some` positions from i on does.
  TANDEM_HOST_DEVICE_INLINE bool CountsFrom(uint32_t i, uint32_t some) const {
    return i < count && i + some > skipped;
  }
};

// Of all tiles, with 32 positions of each warp.
inline constexpr uint32_t kPositionTiles = kWarp / kMmaColumns;
template <typename Traits>
using MmaScores = OfWarps<Lanes<MmaSums>[kMmaTiles][kPositionTiles], MmaShared<Traits>::kWarps>;

template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void RoundQueries(const Block& block, MmaShared<Traits>& shared,
                                     const AttentionArguments& a, const MmaWork& work) {
  const uint32_t size = a.layer.head_size, step = 2 * kMmaStep;
  const uint32_t quads = (size + step - 1) / step * step / 8;  // of a query, in whole steps
  block.Threads([&](int t) {
    for (uint32_t i = t; i < work.tiles() * kMmaRows * quads; i += Traits::kThreads) {
      const uint32_t row = i / quads, d = i % quads * 8;
      Quad quad = {};
      if (row < work.heads && d < size) {
        const float* query = a.queries + shared.query_at[row] + d;
        const Four fours[] = {LoadAs<Four>(query), LoadAs<Four>(query + 4)};
        TANDEM_UNROLL
        for (uint32_t w = 0; w < 4; ++w) {
          const float* two = fours[w / 2].values + w % 2 * 2;
          quad.words[w] = Element::Store(two[0]) | uint32_t{Element::Store(two[1])} << 16;
        }
      }
      StoreAs<Quad>(shared.RowOf(row) + d, quad);
    }
  });
}

// Scores, and of each query the largest one of 8 positions of a thread.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE_INLINE void ScoreTiles(const Block& block, MmaShared<Traits>& shared,
                                          const AttentionArguments& a, const MmaWork& work,
                                          MmaScores<Traits>& scores) {
  const uint32_t size = a.layer.head_size;
  const auto* pool = static_cast<const uint16_t*>(a.pool);
  block.Warps([&](const Warp& warp) {
    const uint32_t first = warp.number() * kWarp;
    auto& sums = scores[warp.number()];
    TANDEM_UNROLL
    for (uint32_t tile = 0; tile < kMmaTiles; ++tile) {
      TANDEM_UNROLL
      for (uint32_t n = 0; n < kPositionTiles; ++n) {
        warp.Each([&](int lane) { sums[tile][n][lane] = {}; });
      }
    }
    if (work.CountsFrom(first, kWarp)) {
      Lanes<const uint16_t*> keys[kPositionTiles];
      TANDEM_UNROLL
      for (uint32_t n = 0; n < kPositionTiles; ++n) {
        warp.Each([&](int lane) {
          const uint32_t i = first + n * kMmaColumns + lane / 4;
          keys[n][lane] = pool + shared.keys[work.Counts(i) ? i : work.skipped];
        });
      }
      TANDEM_NO_UNROLL
      for (uint32_t d = 0; d < size; d += 2 * kMmaStep) {
        Lanes<Quad> key[kPositionTiles];
        warp.Each([&](int lane) {
          const uint32_t at = d + lane % 4 * 8;
          TANDEM_UNROLL
          for (uint32_t n = 0; n < kPositionTiles; ++n) {
            key[n][lane] = LoadAs<Quad>(keys[n][lane] + (at < size ? at : 0));
          }
          AskTogether();
        });
        TANDEM_UNROLL
        for (uint32_t tile = 0; tile < kMmaTiles; ++tile) {
          if (tile >= work.tiles()) continue;
          const bool same = Traits::kFault == AttentionFault::kQueriesOfOneTile;
          Lanes<Quad> upper, lower;
          warp.Each([&](int lane) {
            const uint16_t* query = shared.RowOf(lane / 4) + d + lane % 4 * 8;
            upper[lane] = LoadAs<Quad>(query + (same ? 0 : tile) * kMmaRows * kWordStride);
            lower[lane] = LoadAs<Quad>(query + ((same ? 0 : tile) * kMmaRows + 8) * kWordStride);
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
            for (uint32_t n = 0; n < kPositionTiles; ++n) {
              Lanes<MmaB> numbers;
              warp.Each([&](int lane) {
                numbers[lane] = {{key[n][lane].words[y], key[n][lane].words[y + 1]}};
              });
              MultiplyAdd<Element>(queries, numbers, sums[tile][n]);
            }
          }
        }
      }
    }
    TANDEM_UNROLL
    for (uint32_t row = 0; row < kMmaQueries; row += 8) {
      if (row >= work.tiles() * kMmaRows) continue;
      warp.Each([&](int lane) {
        float largest = 0;
        TANDEM_UNROLL
        for (uint32_t v = 0; v < 2 * kPositionTiles; ++v) {
          float& score = sums[row / kMmaRows][v / 2][lane].values[row % kMmaRows / 4 + v % 2];
          const bool plain = Traits::kFault == AttentionFault::kQueriesUnscaled;
          const bool counts = work.Counts(first + v / 2 * kMmaColumns + lane % 4 * 2 + v % 2);
          score = counts ? score * (plain ? 1 : a.scale) : -0x1.fffffep127f;
          if (v == 0 || score > largest) largest = score;
        }
        float* part = shared.parts + (warp.number() * 4 + lane % 4) * kPartStride + lane / 4;
        part[row] = largest;
      });
    }
  });
}

// Each query's largest score and sum of weights, and weights in 16 bits.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE_INLINE void WeighTiles(const Block& block, MmaShared<Traits>& shared,
                                          const AttentionArguments& a, const MmaWork& work,
                                          MmaScores<Traits>& scores) {
  const uint32_t rows = work.tiles() * kMmaRows;
  block.Threads([&](int t) {
    if (t >= static_cast<int>(rows)) return;
    float largest = shared.parts[t];
    for (uint32_t i = 1; i < kPartial / 8; ++i) {
      const float part = shared.parts[i * kPartStride + t];
      if (part > largest) largest = part;
    }
    shared.largest[t] = largest;
    if (t < static_cast<int>(work.heads)) a.partial_largest[shared.place[t]] = largest;
  });
  block.Warps([&](const Warp& warp) {
    TANDEM_UNROLL
    for (uint32_t row = 0; row < kMmaQueries; row += 8) {
      if (row >= rows) continue;
      warp.Each([&](int lane) {
        const float largest = shared.largest[row + lane / 4];
        TANDEM_UNROLL
        for (uint32_t n = 0; n < kPositionTiles; ++n) {
          const float* two =
              scores[warp.number()][row / kMmaRows][n][lane].values + row % kMmaRows / 4;
          const uint32_t first = warp.number() * kWarp + lane % 4 * 2, i = first + n * kMmaColumns;
          const uint32_t x = Element::Store(work.Counts(i) ? Exp(two[0] - largest) : 0);
          const uint32_t y = Element::Store(work.Counts(i + 1) ? Exp(two[1] - largest) : 0);
          uint16_t* weights = shared.RowOf(lane / 4) + first;
          StoreAs<uint32_t>(weights + row * kWordStride + n * kMmaColumns, x | y << 16);
        }
      });
    }
  });
  block.Threads([&](int t) {
    const uint32_t way = t % kMmaWays;
    for (uint32_t row = t / kMmaWays; row < rows; row += Traits::kThreads / kMmaWays) {
      float sum = 0;
      for (uint32_t i = way; i < kPartial; i += kMmaWays) {
        sum += Element::Load(LoadAs<uint16_t>(shared.RowOf(row) + i));
      }
      shared.parts[way * kPartStride + row] = sum;
    }
  });
  block.Threads([&](int t) {
    if (t >= static_cast<int>(work.heads)) return;
    float sum = shared.parts[t];
    for (uint32_t i = 1; i < kMmaWays; ++i) sum += shared.parts[i * kPartStride + t];
    a.partial_sums[shared.place[t]] = sum;
  });
}

// Weighed values: a warp has 64 elements, of the positions of a chunk.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void AddValues(const Block& block, MmaShared<Traits>& shared,
                                  const AttentionArguments& a, const MmaWork& work) {
  constexpr uint32_t kTiles = kMmaColumnsOfWarp / kMmaColumns;  // of elements
  const uint32_t size = a.layer.head_size;
  const uint32_t stretches = (size + kMmaColumnsOfWarp - 1) / kMmaColumnsOfWarp;
  const uint32_t ways = MmaShared<Traits>::kWarps / stretches;
  // A power of two of chunks.
  const uint32_t chunks = ways >= 8 ? 8 : ways >= 4 ? 4 : 2, chunk = kPartial / chunks;
  const auto* values = static_cast<const uint16_t*>(a.pool) + a.layer.value_words;
  const uint32_t pairs = (work.tiles() + kMmaValueTiles - 1) / kMmaValueTiles;
  // The last tiles first: their sums lie over their weights, and beyond.
  TANDEM_NO_UNROLL
  for (uint32_t turn = 0; turn < pairs; ++turn) {
    const bool forward = Traits::kFault == AttentionFault::kWeightsLost;
    const uint32_t first_tile = (forward ? turn : pairs - 1 - turn) * kMmaValueTiles;
    const uint32_t first_row = first_tile * kMmaRows;
    float* stage = shared.stage + first_row * kWordStride / 2;
    OfWarps<Lanes<MmaSums>[kMmaValueTiles][kTiles], MmaShared<Traits>::kWarps> of_warps;
    // Sums of a warp for 8 rows of these tiles.
    const auto put = [&](const Warp& warp, uint32_t row) {
      TANDEM_UNROLL
      for (uint32_t v = 0; v < 2 * kTiles; ++v) {
        warp.Each([&](int lane) {
          float* to = stage + (warp.number() * kStagedRows + lane / 4) * kSumStride + lane % 4 * 2;
          to[v / 2 * kMmaColumns + v % 2] = of_warps[warp.number()][row / kMmaRows][v / 2][lane]
                                                .values[row % kMmaRows / 4 + v % 2];
        });
      }
    };
    block.Warps([&](const Warp& warp) {
      auto& sums = of_warps[warp.number()];
      TANDEM_UNROLL
      for (uint32_t tile = 0; tile < kMmaValueTiles; ++tile) {
        TANDEM_UNROLL
        for (uint32_t n = 0; n < kTiles; ++n) {
          warp.Each([&](int lane) { sums[tile][n][lane] = {}; });
        }
      }
      if (warp.number() >= chunks * stretches) return;
      const uint32_t first = warp.number() / stretches * chunk;
      const uint32_t stretch = warp.number() % stretches * kMmaColumnsOfWarp;
      TANDEM_NO_UNROLL
      for (uint32_t from = first; from < first + chunk; from += kMmaStep) {
        if (!work.CountsFrom(from, kMmaStep)) continue;  // all weights are 0
        Lanes<MmaB> numbers[kTiles];
        warp.Each([&](int lane) {
          const uint32_t at = stretch + lane / 4 * 8;
          Quad value[4];
          TANDEM_UNROLL
          for (uint32_t v = 0; v < 4; ++v) {
            const uint32_t i = from + lane % 4 * 2 + v % 2 + v / 2 * 8;
            const bool stale = Traits::kFault == AttentionFault::kStaleValues;
            const uint64_t key = shared.keys[work.Counts(i) || stale ? i : work.skipped];
            value[v] = LoadAs<Quad>(values + key + (at < size ? at : 0));
          }
          AskTogether();
          TANDEM_UNROLL
          for (uint32_t n = 0; n < 2 * kTiles; ++n) {
            const uint32_t x = value[n % 2 * 2].words[n / 4], y = value[n % 2 * 2 + 1].words[n / 4];
            numbers[n / 2][lane].words[n % 2] =
                n / 2 % 2 == 0 ? (x & 0xffff) | y << 16 : x >> 16 | (y & ~0xffffu);
          }
        });
        TANDEM_UNROLL
        for (uint32_t tile = 0; tile < kMmaValueTiles; ++tile) {
          if (first_tile + tile >= work.tiles()) continue;
          Lanes<MmaA> weights;
          warp.Each([&](int lane) {
            const bool swapped =
                Traits::kFault == AttentionFault::kTilesSwapped && work.heads > kMmaRows;
            const uint32_t row = (swapped ? kMmaValueTiles - 1 - tile : tile) * kMmaRows;
            const uint16_t* own = shared.RowOf(first_row + lane / 4) + from + lane % 4 * 2;
            TANDEM_UNROLL
            for (uint32_t v = 0; v < 4; ++v) {
              const uint32_t in_tile = v % 2 * 8 * kWordStride + v / 2 * 8;
              weights[lane].words[v] = LoadAs<uint32_t>(own + row * kWordStride + in_tile);
            }
          });
          TANDEM_UNROLL
          for (uint32_t n = 0; n < kTiles; ++n) {
            MultiplyAdd<Element>(weights, numbers[n], sums[tile][n]);
          }
        }
      }
      if (Traits::kFault == AttentionFault::kStagedEarly) put(warp, 0);
    });
    TANDEM_UNROLL
    for (uint32_t row = 0; row < kMmaValueTiles * kMmaRows; row += kStagedRows) {
      if (first_row + row >= work.heads) continue;
      block.Warps([&](const Warp& warp) { put(warp, row); });
      block.Threads([&](int t) {
        const uint32_t left = work.heads - first_row - row;
        for (uint32_t i = t; i < (left < kStagedRows ? left : kStagedRows) * size;
             i += Traits::kThreads) {
          const uint32_t staged = i / size, d = i % size, in_stretch = d % kMmaColumnsOfWarp;
          const uint32_t column = in_stretch % 8 * kMmaColumns + in_stretch / 8;
          const bool lost = Traits::kFault == AttentionFault::kChunkLost;
          float sum = 0;
          for (uint32_t c = 0; c < (lost ? chunks - 1 : chunks); ++c) {
            const uint32_t warp = c * stretches + d / kMmaColumnsOfWarp;
            const float part = stage[(warp * kStagedRows + staged) * kSumStride + column];
            sum = c == 0 ? part : sum + part;
          }
          a.partial_values[shared.place[first_row + row + staged] * size + d] = sum;
        }
      });
    }
  }
}

// As that of attention.h, some tiles at a time.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void AttendAll(const Block& block, MmaShared<Traits>& shared,
                                  const AttentionArguments& a, uint32_t number, uint32_t first_row,
                                  uint32_t all, uint32_t kv_head, uint32_t skipped,
                                  uint32_t count) {
  TANDEM_NO_UNROLL
  for (uint32_t from = 0; from < all; from += kMmaQueries) {
    const uint32_t heads = all - from < kMmaQueries ? all - from : kMmaQueries;
    const MmaWork work = {heads, skipped, count};
    PlaceHeads(block, shared, a, {number, first_row, kv_head, from, heads});
    RoundQueries<Traits, Element>(block, shared, a, work);
    MmaScores<Traits> scores;
    ScoreTiles<Traits, Element>(block, shared, a, work, scores);
    WeighTiles<Traits, Element>(block, shared, a, work, scores);
    AddValues<Traits, Element>(block, shared, a, work);
  }
}

}  // namespace tandem::kernels
