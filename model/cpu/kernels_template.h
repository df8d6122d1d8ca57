// The kernels, written once over a vector type V; each kernels_*.cc includes this with its own V
// and its own compiler flags. Only plain loops and V are used here: a standard library's inline
// function compiled with AVX-512 could otherwise be the copy that the linker keeps for everybody.
//
// V has: kLanes (16, or a divisor), kMaxRows (of a tile), kMaxSums (pairs of registers that hold
// sums), kAheadWords (of weights that a whole panel's tile asks for early; 0: it does not),
// kBlockBytes (of a panel that all tiles meet together; 0: all of it) with kMaxWholeRows (up to so
// many rows take whole panels all the same) and kBlockRows (that blocks meet), Zero, Broadcast,
// Load, Store, Fma(a, b, c) = a·b + c rounded once, Add, Sub, Mul, Div, Min and Max (a < b ? a : b;
// a > b ? a : b), LoadIntegers (as many int32 as lanes), LoadHalves (the two bf16 halves of 32-bit
// words as floats), LoadFloat16 (as many fp16 as lanes), ScaleByPowerOf2(x, magic) (see Exp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/cpu/grouped.h"
#include "model/cpu/int8.h"
#include "model/cpu/kernels.h"

namespace tandem::model::cpu {
namespace {

#define TANDEM_KERNEL inline __attribute__((always_inline))

// 1.5 · 2²³: adding it rounds to an integer, kept in the low bits.
constexpr float kMagic = 12582912.0f;

// exp by 2ⁿ·e^r, |r| <= ln 2 / 2, e^r by its Taylor polynomial of degree 7 (error below 1e-8
// relative).
template <class V>
TANDEM_KERNEL typename V::Type Exp(typename V::Type x) {
  x = V::Min(V::Max(x, V::Broadcast(-87.0f)), V::Broadcast(88.0f));
  typename V::Type magic = V::Fma(x, V::Broadcast(1.44269504f), V::Broadcast(kMagic));
  typename V::Type n = V::Sub(magic, V::Broadcast(kMagic));
  typename V::Type r = V::Fma(n, V::Broadcast(-0.693145752f), x);
  r = V::Fma(n, V::Broadcast(-1.42860677e-6f), r);
  typename V::Type p = V::Broadcast(1.98412698e-4f);
  p = V::Fma(p, r, V::Broadcast(1.38888889e-3f));
  p = V::Fma(p, r, V::Broadcast(8.33333333e-3f));
  p = V::Fma(p, r, V::Broadcast(4.16666667e-2f));
  p = V::Fma(p, r, V::Broadcast(1.66666667e-1f));
  p = V::Fma(p, r, V::Broadcast(0.5f));
  p = V::Fma(p, r, V::Broadcast(1.0f));
  p = V::Fma(p, r, V::Broadcast(1.0f));
  return V::ScaleByPowerOf2(p, magic);
}

// silu(gate) · up
template <class V>
TANDEM_KERNEL typename V::Type SwiGlu(typename V::Type gate, typename V::Type up) {
  typename V::Type e = Exp<V>(V::Sub(V::Zero(), gate));
  return V::Mul(V::Div(gate, V::Add(V::Broadcast(1.0f), e)), up);
}

// Sixteen lanes to one sum: 8 + 8, 4 + 4, 2 + 2, 1 + 1.
TANDEM_KERNEL float SumLanes(float* lanes) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
  }
  return lanes[0];
}

template <class V>
TANDEM_KERNEL void StoreSome(float* out, typename V::Type value, int columns) {
  if (columns >= V::kLanes) {
    V::Store(out, value);
    return;
  }
  float lanes[V::kLanes];
  V::Store(lanes, value);
  for (int i = 0; i < columns; ++i) out[i] = lanes[i];
}

template <class V>
TANDEM_KERNEL typename V::Type LoadSome(const float* from, int columns) {
  if (columns >= V::kLanes) return V::Load(from);
  float lanes[V::kLanes];
  for (int i = 0; i < V::kLanes; ++i) lanes[i] = i < columns ? from[i] : 0.0f;
  return V::Load(lanes);
}

// A unit is V::kLanes words of a panel's row: as many columns from its lower sixteen, and the same
// from its upper sixteen.
template <class V>
struct Unit {
  static constexpr int kPerPanel = kLanes / V::kLanes;
  static int Panel(int unit) { return unit / kPerPanel; }
  static int Word(int unit) { return unit % kPerPanel * V::kLanes; }
  // Where the unit's first column lies in its panel, in words.
  template <WeightType kType>
  static int Offset(int unit) {
    return kType == WeightType::kFloat16 ? Word(unit) / 2 : Word(unit);
  }
};

template <class V>
TANDEM_KERNEL void FinishHalf(const MultiplyArgs& args, int row, int column, const float* bias,
                              typename V::Type sum) {
  int columns = args.out_columns - column;
  if (columns <= 0) return;
  float* out = args.out + static_cast<size_t>(row) * args.out_stride + column;
  if (bias != nullptr) sum = V::Add(sum, V::Load(bias));
  if (args.epilogue == Epilogue::kAdd) sum = V::Add(LoadSome<V>(out, columns), sum);
  StoreSome<V>(out, sum, columns);
}

template <class V>
TANDEM_KERNEL void Finish(const MultiplyArgs& args, int row, int unit, typename V::Type low,
                          typename V::Type high) {
  int word = Unit<V>::Word(unit);
  int panel = Unit<V>::Panel(unit);
  const float* bias = args.bias == nullptr ? nullptr : args.bias + panel * kPanelColumns + word;
  if (args.epilogue != Epilogue::kSwiGlu) {
    int column = panel * kPanelColumns + word;
    FinishHalf<V>(args, row, column, bias, low);
    FinishHalf<V>(args, row, column + kLanes, bias == nullptr ? nullptr : bias + kLanes, high);
    return;
  }
  if (bias != nullptr) {
    low = V::Add(low, V::Load(bias));
    high = V::Add(high, V::Load(bias + kLanes));
  }
  int column = panel * kLanes + word;
  int columns = args.out_columns - column;
  if (columns <= 0) return;
  StoreSome<V>(args.out + static_cast<size_t>(row) * args.out_stride + column, SwiGlu<V>(low, high),
               columns);
}

template <class V>
TANDEM_KERNEL typename V::Type Start(const MultiplyArgs& args, int row, int column) {
  if (args.epilogue != Epilogue::kAccumulate) return V::Zero();
  int columns = args.out_columns - column;
  if (columns <= 0) return V::Zero();
  return LoadSome<V>(args.out + static_cast<size_t>(row) * args.out_stride + column, columns);
}

// A part of the inner dimension. Between the parts a tile's sums lie in memory: storing and loading
// rounds nothing.
struct Stretch {
  int begin = 0;
  int end = 0;
  // Of one panel: [rows from first_row on][kPanelColumns]. Null: the stretch is all of k.
  float* sums = nullptr;
  int first_row = 0;
  // What the first step asks for early, and bytes from there to what the next step asks for.
  // Several rows fill the processor's window with arithmetic, so it looks less far ahead by itself
  // than memory takes.
  const char* ahead = nullptr;
  size_t ahead_step = 0;
};

// R rows by U units: the sums stay in registers over the stretch; each weight is loaded once.
template <class V, WeightType kType, int R, int U>
void Tile(const MultiplyArgs& args, const Stretch& stretch, int row, int unit) {
  constexpr int kWords = WordsPerK(kType);
  typename V::Type low[R][U];
  typename V::Type high[R][U];
  const uint32_t* weights[U];
  for (int u = 0; u < U; ++u) {
    weights[u] = static_cast<const uint32_t*>(args.panels) +
                 Unit<V>::Panel(unit + u) * args.panel_words +
                 Unit<V>::template Offset<kType>(unit + u);
    const int word = Unit<V>::Word(unit + u);
    const int column = Unit<V>::Panel(unit + u) * kPanelColumns + word;
    for (int r = 0; r < R; ++r) {
      if (stretch.begin > 0) {
        const float* sums =
            stretch.sums + static_cast<size_t>(row + r - stretch.first_row) * kPanelColumns + word;
        low[r][u] = V::Load(sums);
        high[r][u] = V::Load(sums + kLanes);
      } else {
        low[r][u] = Start<V>(args, row + r, column);
        high[r][u] = Start<V>(args, row + r, column + kLanes);
      }
    }
  }
  const float* x = args.x + static_cast<size_t>(row) * args.x_stride;
  const size_t stride = args.x_stride;
  const char* ahead = stretch.ahead;
  const int k_end = stretch.end;
  for (int k = stretch.begin; k < k_end; ++k) {
    typename V::Type w_low[U];
    typename V::Type w_high[U];
    if constexpr (V::kBlockBytes > 0 && U == 1) {
      __builtin_prefetch(ahead);
      ahead += stretch.ahead_step;
    }
#pragma GCC unroll 16
    for (int u = 0; u < U; ++u) {
      const uint32_t* w = weights[u] + static_cast<size_t>(k) * kWords;
      // The first unit of a panel asks for all of it.
      if (V::kAheadWords > 0 && U % Unit<V>::kPerPanel == 0 && u % Unit<V>::kPerPanel == 0) {
        __builtin_prefetch(w + V::kAheadWords);
        if constexpr (kType == WeightType::kFloat32)
          __builtin_prefetch(w + V::kAheadWords + kLanes);
      }
      if constexpr (kType == WeightType::kFloat32) {
        w_low[u] = V::Load(reinterpret_cast<const float*>(w));
        w_high[u] = V::Load(reinterpret_cast<const float*>(w) + kLanes);
      } else if constexpr (kType == WeightType::kBfloat16) {
        V::LoadHalves(w, &w_low[u], &w_high[u]);
      } else {
        w_low[u] = V::LoadFloat16(w);
        w_high[u] = V::LoadFloat16(w + kLanes / 2);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      typename V::Type value = V::Broadcast(x[r * stride + k]);
#pragma GCC unroll 16
      for (int u = 0; u < U; ++u) {
        low[r][u] = V::Fma(value, w_low[u], low[r][u]);
        high[r][u] = V::Fma(value, w_high[u], high[r][u]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int u = 0; u < U; ++u) {
      if (k_end < args.k) {
        float* sums = stretch.sums +
                      static_cast<size_t>(row + r - stretch.first_row) * kPanelColumns +
                      Unit<V>::Word(unit + u);
        V::Store(sums, low[r][u]);
        V::Store(sums + kLanes, high[r][u]);
      } else {
        Finish<V>(args, row + r, unit + u, low[r][u], high[r][u]);
      }
    }
  }
}

// R rows of some units.
template <class V, WeightType kType, int R>
void Rows(const MultiplyArgs& args, const Stretch& stretch, int row, int units, int unit) {
  // As many units beside each other as keep the sums in registers; the fewer rows, the more.
  constexpr int kWide = V::kMaxSums / R > 4 ? 4 : (V::kMaxSums / R > 1 ? 2 : 1);
  int last = unit + units;
  for (; unit + kWide <= last; unit += kWide) {
    Tile<V, kType, R, kWide>(args, stretch, row, unit);
  }
  if constexpr (kWide > 2) {
    for (; unit + 2 <= last; unit += 2) Tile<V, kType, R, 2>(args, stretch, row, unit);
  }
  for (; unit < last; ++unit) Tile<V, kType, R, 1>(args, stretch, row, unit);
}

template <class V, WeightType kType>
void RowsOf(int rows, const MultiplyArgs& args, const Stretch& stretch, int row, int units,
            int unit) {
  switch (rows) {
    case 1:
      return Rows<V, kType, 1>(args, stretch, row, units, unit);
    case 2:
      return Rows<V, kType, 2>(args, stretch, row, units, unit);
    case 3:
      return Rows<V, kType, 3>(args, stretch, row, units, unit);
    case 4:
      return Rows<V, kType, 4>(args, stretch, row, units, unit);
    case 5:
      return Rows<V, kType, 5>(args, stretch, row, units, unit);
    case 6:
      return Rows<V, kType, 6>(args, stretch, row, units, unit);
  }
  if constexpr (V::kMaxRows >= 8) {
    if (rows == 7) return Rows<V, kType, 7>(args, stretch, row, units, unit);
    return Rows<V, kType, 8>(args, stretch, row, units, unit);
  }
}

// The begin of block b, if rows are cut into blocks of about equal size: 9 rows are 5 + 4, not 8 +
// 1.
inline int BlockBegin(int rows, int block, int blocks) {
  return static_cast<int>(static_cast<int64_t>(rows) * block / blocks);
}

template <class V, WeightType kType>
void MultiplyWhole(const MultiplyArgs& args) {
  constexpr int kMaxRows = V::kMaxRows;
  const Stretch whole{0, args.k};
  const int units = args.panel_count * Unit<V>::kPerPanel;
  const int blocks = (args.rows + kMaxRows - 1) / kMaxRows;
  if (blocks == 1) return RowsOf<V, kType>(args.rows, args, whole, 0, units, 0);
  // Weights come from memory once: a group of panels meets all rows before the next group.
  constexpr int kGroup = 2 * Unit<V>::kPerPanel;
  for (int unit = 0; unit < units; unit += kGroup) {
    int count = units - unit < kGroup ? units - unit : kGroup;
    for (int b = 0; b < blocks; ++b) {
      const int first = BlockBegin(args.rows, b, blocks);
      const int end = BlockBegin(args.rows, b + 1, blocks);
      RowsOf<V, kType>(end - first, args, whole, first, count, unit);
    }
  }
}

// Where few registers hold sums, several tiles read the same weights, and a panel does not stay in
// the first cache. So all tiles of a panel meet some of its inputs before the next ones; meanwhile
// those are on their way.
template <class V, WeightType kType>
void MultiplyBlocked(const MultiplyArgs& args, int first_row, int rows) {
  constexpr int kBytesPerK = 4 * WordsPerK(kType);
  constexpr int kSteps = V::kBlockBytes / kBytesPerK;
  const int blocks = (rows + V::kMaxRows - 1) / V::kMaxRows;
  const int tiles = blocks * Unit<V>::kPerPanel;
  float sums[V::kBlockRows * kPanelColumns];
  Stretch stretch;
  stretch.sums = sums;
  stretch.first_row = first_row;
  stretch.ahead_step = static_cast<size_t>(kBytesPerK / tiles);
  for (int panel = 0; panel < args.panel_count; ++panel) {
    const char* weights = reinterpret_cast<const char*>(static_cast<const uint32_t*>(args.panels) +
                                                        panel * args.panel_words);
    for (int k = 0; k < args.k; k += kSteps) {
      stretch.begin = k;
      stretch.end = args.k - k < kSteps ? args.k : k + kSteps;
      int tile = 0;
      for (int b = 0; b < blocks; ++b) {
        const int first = first_row + BlockBegin(rows, b, blocks);
        const int end = first_row + BlockBegin(rows, b + 1, blocks);
        for (int u = 0; u < Unit<V>::kPerPanel; ++u) {
          stretch.ahead = weights + static_cast<size_t>(k) * kBytesPerK + V::kBlockBytes +
                          static_cast<size_t>(tile++) * V::kBlockBytes / tiles;
          RowsOf<V, kType>(end - first, args, stretch, first, 1, panel * Unit<V>::kPerPanel + u);
        }
      }
    }
  }
}

template <class V, WeightType kType>
void MultiplyTyped(const MultiplyArgs& args) {
  if constexpr (V::kBlockBytes > 0) {
    if (args.rows > V::kMaxWholeRows) {
      for (int row = 0; row < args.rows; row += V::kBlockRows) {
        const int rows = args.rows - row < V::kBlockRows ? args.rows - row : V::kBlockRows;
        MultiplyBlocked<V, kType>(args, row, rows);
      }
      return;
    }
  }
  MultiplyWhole<V, kType>(args);
}

template <class V>
void Multiply(const MultiplyArgs& args) {
  if (args.rows <= 0 || args.panel_count <= 0) return;
  if (args.type == WeightType::kFloat32) {
    MultiplyTyped<V, WeightType::kFloat32>(args);
  } else if (args.type == WeightType::kBfloat16) {
    MultiplyTyped<V, WeightType::kBfloat16>(args);
  } else {
    MultiplyTyped<V, WeightType::kFloat16>(args);
  }
}

template <class V>
void FinishPanel(const MultiplyArgs& args, int row, int panel, const int32_t* sums, float scale,
                 const float* scales) {
  const typename V::Type of_row = V::Broadcast(scale);
  for (int i = 0; i < Unit<V>::kPerPanel; ++i) {
    const int unit = panel * Unit<V>::kPerPanel + i;
    typename V::Type products[2];
    for (int half = 0; half < 2; ++half) {
      const int at = Unit<V>::Word(unit) + half * kLanes;
      products[half] = V::Mul(V::Mul(V::LoadIntegers(sums + at), of_row), V::Load(scales + at));
    }
    Finish<V>(args, row, unit, products[0], products[1]);
  }
}

template <class V>
void StorePanel(const MultiplyArgs& args, int row, int panel, const float* sums) {
  for (int i = 0; i < Unit<V>::kPerPanel; ++i) {
    const int unit = panel * Unit<V>::kPerPanel + i;
    const int at = Unit<V>::Word(unit);
    Finish<V>(args, row, unit, V::Load(sums + at), V::Load(sums + at + kLanes));
  }
}

template <class V>
void RmsNorm(const float* x, const float* weight, int n, int padded, float epsilon, float* out) {
  constexpr int kParts = kLanes / V::kLanes;
  typename V::Type squares[kParts];
  for (int j = 0; j < kParts; ++j) squares[j] = V::Zero();
  for (int i = 0; i < padded; i += kLanes) {
    for (int j = 0; j < kParts; ++j) {
      typename V::Type value = V::Load(x + i + j * V::kLanes);
      squares[j] = V::Fma(value, value, squares[j]);
    }
  }
  float lanes[kLanes];
  for (int j = 0; j < kParts; ++j) V::Store(lanes + j * V::kLanes, squares[j]);
  float mean = SumLanes(lanes) / static_cast<float>(n);
  typename V::Type scale = V::Broadcast(1.0f / __builtin_sqrtf(mean + epsilon));
  for (int i = 0; i < padded; i += V::kLanes) {
    V::Store(out + i, V::Mul(V::Load(weight + i), V::Mul(V::Load(x + i), scale)));
  }
}

template <class V>
float Softmax(float* scores, int n) {
  constexpr int kParts = kLanes / V::kLanes;
  const int full = n / kLanes * kLanes;
  float largest = scores[0];
  {
    typename V::Type max = V::Broadcast(largest);
    for (int i = 0; i < full; i += V::kLanes) max = V::Max(V::Load(scores + i), max);
    float lanes[V::kLanes];
    V::Store(lanes, max);
    for (int i = 0; i < V::kLanes; ++i) largest = lanes[i] > largest ? lanes[i] : largest;
    for (int i = full; i < n; ++i) largest = scores[i] > largest ? scores[i] : largest;
  }
  const int padded = (n + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
  for (int i = n; i < padded; ++i) scores[i] = largest;
  typename V::Type shift = V::Broadcast(largest);
  typename V::Type sums[kParts];
  for (int j = 0; j < kParts; ++j) sums[j] = V::Zero();
  for (int i = 0; i < padded; i += kLanes) {
    for (int j = 0; j < kParts; ++j) {
      float* at = scores + i + j * V::kLanes;
      V::Store(at, Exp<V>(V::Sub(V::Load(at), shift)));
    }
    for (int m = n > i ? n : i; m < i + kLanes; ++m) scores[m] = 0.0f;
    for (int j = 0; j < kParts; ++j) {
      sums[j] = V::Add(sums[j], V::Load(scores + i + j * V::kLanes));
    }
  }
  float lanes[kLanes];
  for (int j = 0; j < kParts; ++j) V::Store(lanes + j * V::kLanes, sums[j]);
  return SumLanes(lanes);
}

template <class V>
void ExpAll(const float* x, int n, float* out) {
  for (int i = 0; i < n; i += V::kLanes) V::Store(out + i, Exp<V>(V::Load(x + i)));
}

template <class V>
constexpr Kernels MakeKernels(const char* name, const Int8Kernels* int8,
                              const GroupedKernels* grouped) {
  return Kernels{name,    Multiply<V>, FinishPanel<V>, StorePanel<V>, int8,
                 grouped, RmsNorm<V>,  Softmax<V>,     ExpAll<V>};
}

}  // namespace
}  // namespace tandem::model::cpu
