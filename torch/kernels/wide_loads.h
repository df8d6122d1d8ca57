// Loops over numbers that a card reads 16 bytes at a time, kInFlight times that before it needs the
// first of them.
#pragma once

#include "torch/kernels/block.h"
#include "torch/kernels/numbers.h"

namespace tandem::kernels {

// Numbers of type T in 16 bytes.
template <typename T>
inline constexpr uint32_t kNumbersPerQuad = sizeof(Quad) / sizeof(T);

template <typename T>
TANDEM_HOST_DEVICE_INLINE T NumberOf(const Quad& quad, uint32_t i) {
  if constexpr (sizeof(T) == sizeof(uint32_t)) {
    return base::BitsAs<T>(quad.words[i]);
  } else {
    return base::BitsAs<T>(uint64_t{quad.words[2 * i + 1]} << 32 | quad.words[2 * i]);
  }
}

// Whether a card reads and writes 16 bytes there at once.
TANDEM_HOST_DEVICE_INLINE bool IsAligned(const void* at) {
  return reinterpret_cast<uint64_t>(at) % sizeof(Quad) == 0;
}

// In a phase that all threads of a warp come by: use(quad, i) for the thread's i below `count`,
// ascending, of 16 bytes each.
template <int kThreads, typename Use>
TANDEM_HOST_DEVICE_INLINE void ForEachQuad(int t, const void* from, uint32_t count, Use use) {
  TANDEM_NO_UNROLL
  for (uint32_t first = 0; first < count; first += kInFlight * kThreads) {
    Quad some[kInFlight];
    TANDEM_UNROLL
    for (uint32_t k = 0; k < kInFlight; ++k) {
      const uint32_t i = first + k * kThreads + t;
      some[k] = LoadAs<Quad>(static_cast<const char*>(from) +
                             sizeof(Quad) * uint64_t{i < count ? i : count - 1});
    }
    AskTogether();
    TANDEM_UNROLL
    for (uint32_t k = 0; k < kInFlight; ++k) {
      const uint32_t i = first + k * kThreads + t;
      if (i < count) use(some[k], i);
    }
  }
}

// Numbers in a row: those before the first 16 bytes that are aligned, whole ones of these, and the
// rest.
template <typename T>
struct Cut {
  const T* values;
  uint32_t size, before, quads;

  TANDEM_HOST_DEVICE_INLINE Cut(const T* in, uint32_t count) : values(in), size(count) {
    const uint64_t bytes = (0 - reinterpret_cast<uint64_t>(in)) % sizeof(Quad);
    before = static_cast<uint32_t>(bytes / sizeof(T));
    if (before > size) before = size;
    quads = (size - before) / kNumbersPerQuad<T>;
  }
  // use(values[i], i) for those of thread t outside whole 16 bytes, one at most.
  template <typename Use>
  TANDEM_HOST_DEVICE_INLINE void Edge(int t, Use use) const {
    const uint32_t i = static_cast<uint32_t>(t) < before
                           ? static_cast<uint32_t>(t)
                           : static_cast<uint32_t>(t) + quads * kNumbersPerQuad<T>;
    if (i < size) use(values[i], i);
  }
};

// In a phase that all threads of a warp come by: use(values[i], i) for the thread's i below `size`,
// in some order. At least 8 threads.
template <int kThreads, typename T, typename Use>
TANDEM_HOST_DEVICE_INLINE void ForEach(int t, const T* values, uint32_t size, Use use) {
  static_assert(kThreads >= 2 * (kNumbersPerQuad<T> - 1));
  const Cut<T> cut(values, size);
  ForEachQuad<kThreads>(t, values + cut.before, cut.quads, [&](const Quad& quad, uint32_t number) {
    TANDEM_UNROLL
    for (uint32_t k = 0; k < kNumbersPerQuad<T>; ++k) {
      use(NumberOf<T>(quad, k), cut.before + number * kNumbersPerQuad<T> + k);
    }
  });
  cut.Edge(t, use);
}

// Writes results that lie one behind the other, 16 bytes at a time where they are aligned.
template <uint32_t kCount, typename T>
TANDEM_HOST_DEVICE_INLINE void StoreTogether(T* out, const T* results) {
  constexpr uint32_t kPer = kNumbersPerQuad<T>;
  if constexpr (kCount % kPer == 0) {
    if (IsAligned(out)) {
      TANDEM_UNROLL
      for (uint32_t k = 0; k < kCount; k += kPer) {
        Quad quad;
        memcpy(&quad, results + k, sizeof(quad));
        StoreAs<Quad>(out + k, quad);
      }
      return;
    }
  }
  TANDEM_UNROLL
  for (uint32_t k = 0; k < kCount; ++k) out[k] = results[k];
}

// As ForEach: out[i] = make(values[i]). `out` may be `values`.
template <int kThreads, typename In, typename Out, typename Make>
TANDEM_HOST_DEVICE_INLINE void Transform(int t, const In* values, uint32_t size, Out* out,
                                         Make make) {
  constexpr uint32_t kPer = kNumbersPerQuad<In>;
  const Cut<In> cut(values, size);
  ForEachQuad<kThreads>(t, values + cut.before, cut.quads, [&](const Quad& quad, uint32_t number) {
    Out results[kPer];
    TANDEM_UNROLL
    for (uint32_t k = 0; k < kPer; ++k) results[k] = make(NumberOf<In>(quad, k));
    StoreTogether<kPer>(out + cut.before + number * kPer, results);
  });
  cut.Edge(t, [&](In value, uint32_t i) { out[i] = make(value); });
}

}  // namespace tandem::kernels
