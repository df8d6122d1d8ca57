// The residual of a row and its norm, in one kernel: what a branch of a layer gave is added, itself
// or its norm, and the sum is normed for what reads it next. A row depends on itself alone.
//
// Products come as they are made, in the type that keys and values are held in: that of all void
// pointers here. All is computed in float32.
#pragma once

#include "torch/kernels/block.h"
#include "torch/kernels/numbers.h"
#include "torch/kernels/wide_loads.h"

namespace tandem::kernels {

// Mistakes that tests make on purpose, here and in norm_rope.h.
enum class NormRopeFault {
  kNone,
  kEpsilonForgotten,
  kSumByThread,        // the order of the squares depends on the number of threads
  kPlusOneForgotten,   // weights are what files of Gemma hold, less 1
  kPostNormForgotten,  // what is added is not normed
  kScaleForgotten,     // nor multiplied
  kAngleOfCell,        // in a tree a row is rotated by its cell instead of its position
  kNeighboursPaired,   // element 2i with 2i + 1, as some models do
  kAllRotated,         // where only a part of each head is
  kKeyUnrotated,
  kHeadNormOfWidth,  // heads are normed together, or each by itself where it is together
  kHeadNormAfterRotation,
  kPagesIgnored,
  kBiasForgotten,
  kGateForUp,
  kSiluForGelu,
};

// kThreads: of a block, a power of two.
struct NormRopeTraits {
  static constexpr int kThreads = 256;
  static constexpr NormRopeFault kFault = NormRopeFault::kNone;
};

struct AddNormArguments {
  float* residual = nullptr;  // [rows, size]
  // The same shape; it, or its norm if there is added_weight [size], times added_scale is added to
  // the residual first. Null: nothing is.
  const void* added = nullptr;
  const float* added_weight = nullptr;
  const float* weight = nullptr;  // [size]; null: `out` is the residual
  void* out = nullptr;            // [rows, size]
  uint32_t size = 0;
  float epsilon = 0;  // of both norms
  float added_scale = 1;
  uint32_t padding = 0;
};
static_assert(sizeof(AddNormArguments) == 56);  // NVRTC lays it out alike

inline constexpr uint32_t kNormLanes = 256;
// Of a row, so much at a time.
inline constexpr uint32_t kNormChunk = 4096;
struct AddNormShared {
  alignas(16) float row[kNormChunk];  // what is normed
  float lanes[kNormLanes];
};

// Lane 0 becomes the sum of all, by a tree.
template <typename Traits>
TANDEM_HOST_DEVICE void SumLanes(const Block& block, float* lanes) {
  for (uint32_t half = kNormLanes / 2; half > 0; half /= 2) {
    block.Threads([&](int t) {
      for (uint32_t lane = t; lane < half; lane += Traits::kThreads) {
        lanes[lane] += lanes[lane + half];
      }
    });
  }
}

template <typename Traits>
TANDEM_HOST_DEVICE_INLINE float NormWeight(float weight) {
  return Traits::kFault == NormRopeFault::kPlusOneForgotten ? weight - 1 : weight;
}

// Numbers that a thread loads together: of a row kNormGroups times kNormGroup that lie together.
inline constexpr uint32_t kNormGroup = 8, kNormGroups = 2;

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

// Whether all 16 bytes that a row's kernel reads and writes are aligned.
TANDEM_HOST_DEVICE_INLINE bool IsWide(const AddNormArguments& a) {
  return a.size % kNormGroup == 0 && IsAligned(a.residual) && IsAligned(a.added) &&
         IsAligned(a.added_weight) && IsAligned(a.weight) && IsAligned(a.out);
}

// Visits `size` numbers of a row: by load(first), and then use(loaded, first), kNormGroup of them;
// without `wide` by one(i), one of them.
template <typename Traits, typename Load, typename Use, typename One>
TANDEM_HOST_DEVICE_INLINE void VisitRow(const Block& block, bool wide, uint32_t size, Load load,
                                        Use use, One one) {
  constexpr uint32_t kThreads = Traits::kThreads;
  block.Threads([&](int t) {
    TANDEM_NO_UNROLL
    for (uint32_t round = 0; wide && round < size; round += kNormGroups * kNormGroup * kThreads) {
      decltype(load(0)) some[kNormGroups];
      const auto first = [&](uint32_t k) { return round + (k * kThreads + t) * kNormGroup; };
      TANDEM_UNROLL
      for (uint32_t k = 0; k < kNormGroups; ++k) {
        some[k] = load(first(k) < size ? first(k) : size - kNormGroup);
      }
      AskTogether();
      TANDEM_UNROLL
      for (uint32_t k = 0; k < kNormGroups; ++k) {
        if (first(k) < size) use(some[k], first(k));
      }
    }
    TANDEM_NO_UNROLL
    for (uint32_t i = t; !wide && i < size; i += kThreads) one(i);
  });
}

// 1 / sqrt(mean(x²) + epsilon) of `size` numbers, which read(first, count) brings to shared.row, so
// many at a time. The squares are added up in kNormLanes lanes (index modulo kNormLanes) and one
// tree.
template <typename Traits, typename Read>
TANDEM_HOST_DEVICE float NormScale(const Block& block, AddNormShared& shared, uint32_t size,
                                   float epsilon, Read read) {
  constexpr uint32_t kThreads = Traits::kThreads;
  const uint32_t lanes = Traits::kFault == NormRopeFault::kSumByThread ? kThreads : kNormLanes;
  block.Threads([&](int t) {
    for (uint32_t lane = t; lane < kNormLanes; lane += kThreads) shared.lanes[lane] = 0;
  });
  for (uint32_t first = 0; first < size; first += kNormChunk) {
    const uint32_t count = size - first < kNormChunk ? size - first : kNormChunk;
    read(first, count);
    block.Threads([&](int t) {
      for (uint32_t lane = t; lane < lanes; lane += kThreads) {
        float sum = shared.lanes[lane];
        for (uint32_t i = lane; i < count; i += lanes) sum = Fma(shared.row[i], shared.row[i], sum);
        shared.lanes[lane] = sum;
      }
    });
  }
  SumLanes<Traits>(block, shared.lanes);
  const float sum = block.Read(shared.lanes[0]);
  if (Traits::kFault == NormRopeFault::kEpsilonForgotten) epsilon = 0;
  return 1.0f / SquareRoot(sum / static_cast<float>(size) + epsilon);
}

// What is added to the residual.
enum class Added { kNothing, kPlain, kNormed };

// Some of a row, from `first` on, to shared.row, with what is added to it, which the residual gets,
// too.
template <typename Traits, typename Element, Added kAdded>
TANDEM_HOST_DEVICE void ReadSum(const Block& block, AddNormShared& shared,
                                const AddNormArguments& a, uint64_t row, uint32_t first,
                                uint32_t count, float norm_scale) {
  struct Some {
    NormNumbers<Float32> x, weight;
    NormNumbers<Element> added;
  };
  float* x = a.residual + row + first;
  const auto* added = static_cast<const typename Element::Word*>(a.added);
  const float* weight = a.added_weight;
  if constexpr (kAdded != Added::kNothing) added += row + first;
  if constexpr (kAdded == Added::kNormed) weight += first;
  const float scale = Traits::kFault == NormRopeFault::kScaleForgotten ? 1 : a.added_scale;
  const auto sum = [&](float of_x, float more, float of_weight) {
    if constexpr (kAdded == Added::kNormed) {
      more = NormWeight<Traits>(of_weight) * (more * norm_scale);
    }
    return kAdded == Added::kNothing ? of_x : of_x + more * scale;
  };
  VisitRow<Traits>(
      block, IsWide(a), count,
      [&](uint32_t i) {
        Some some = {};
        some.x.Load(x + i);
        if constexpr (kAdded != Added::kNothing) some.added.Load(added + i);
        if constexpr (kAdded == Added::kNormed) some.weight.Load(weight + i);
        return some;
      },
      [&](const Some& some, uint32_t i) {
        float sums[kNormGroup];
        TANDEM_UNROLL
        for (uint32_t k = 0; k < kNormGroup; ++k) {
          sums[k] = sum(some.x[k], some.added[k], some.weight[k]);
        }
        if constexpr (kAdded != Added::kNothing) StoreTogether<kNormGroup>(x + i, sums);
        StoreTogether<kNormGroup>(shared.row + i, sums);
      },
      [&](uint32_t i) {
        const float of_weight = kAdded == Added::kNormed ? weight[i] : 0;
        const float more = kAdded == Added::kNothing ? 0 : Element::Load(added[i]);
        shared.row[i] = x[i] = sum(x[i], more, of_weight);
      });
}

// out = weight · (x · scale), all of a row; without a weight x.
template <typename Traits, typename Element, bool kWeighted>
TANDEM_HOST_DEVICE_INLINE void WriteNormed(const Block& block, const AddNormArguments& a,
                                           uint64_t row, const float* x, float scale) {
  struct Some {
    NormNumbers<Float32> x, weight;
  };
  auto* out = static_cast<typename Element::Word*>(a.out) + row;
  const auto word = [&](float of_x, float weight) {
    return Element::Store(kWeighted ? NormWeight<Traits>(weight) * (of_x * scale) : of_x);
  };
  VisitRow<Traits>(
      block, IsWide(a), a.size,
      [&](uint32_t i) {
        Some some = {};
        some.x.Load(x + i);
        if constexpr (kWeighted) some.weight.Load(a.weight + i);
        return some;
      },
      [&](const Some& some, uint32_t i) {
        typename Element::Word words[kNormGroup];
        TANDEM_UNROLL
        for (uint32_t k = 0; k < kNormGroup; ++k) words[k] = word(some.x[k], some.weight[k]);
        StoreTogether<kNormGroup>(out + i, words);
      },
      [&](uint32_t i) { out[i] = word(x[i], kWeighted ? a.weight[i] : 0); });
}

// residual += added_scale · norm(added), and out = norm of the residual; a block a row.
template <typename Traits, typename Element>
TANDEM_HOST_DEVICE void AddNorm(const Block& block, AddNormShared& shared,
                                const AddNormArguments& a) {
  const uint64_t row = uint64_t{block.x()} * a.size;
  float added_scale = 1;
  const bool normed =
      a.added_weight != nullptr && Traits::kFault != NormRopeFault::kPostNormForgotten;
  if (normed) {
    const auto* added = static_cast<const typename Element::Word*>(a.added) + row;
    added_scale =
        NormScale<Traits>(block, shared, a.size, a.epsilon, [&](uint32_t first, uint32_t count) {
          VisitRow<Traits>(
              block, IsWide(a), count,
              [&](uint32_t i) {
                NormNumbers<Element> some;
                some.Load(added + first + i);
                return some;
              },
              [&](const NormNumbers<Element>& some, uint32_t i) {
                float numbers[kNormGroup];
                TANDEM_UNROLL
                for (uint32_t k = 0; k < kNormGroup; ++k) numbers[k] = some[k];
                StoreTogether<kNormGroup>(shared.row + i, numbers);
              },
              [&](uint32_t i) { shared.row[i] = Element::Load(added[first + i]); });
        });
  }
  const auto read = [&](uint32_t first, uint32_t count) {
    if (a.added == nullptr) {
      ReadSum<Traits, Element, Added::kNothing>(block, shared, a, row, first, count, 1);
    } else if (!normed) {
      ReadSum<Traits, Element, Added::kPlain>(block, shared, a, row, first, count, 1);
    } else {
      ReadSum<Traits, Element, Added::kNormed>(block, shared, a, row, first, count, added_scale);
    }
  };
  const float scale = NormScale<Traits>(block, shared, a.size, a.epsilon, read);
  const float* x = a.residual + row;
  if (a.weight == nullptr) {
    WriteNormed<Traits, Element, false>(block, a, row, x, 1);
  } else if (a.size <= kNormChunk) {
    WriteNormed<Traits, Element, true>(block, a, row, shared.row, scale);
  } else {
    WriteNormed<Traits, Element, true>(block, a, row, x, scale);
  }
}

}  // namespace tandem::kernels
