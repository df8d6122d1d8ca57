// How a kernel is written so that one source runs on a card and on the host: as phases.
//
//   block.Threads([&](int thread) { … });   every thread of the block once, then a barrier
//   const T value = block.Read(shared);     shared memory outside a phase, then a barrier
//
// Within a phase no thread reads what another one writes. What lies between phases is the same for
// all threads: it depends on arguments and on what Read gave. Local variables are written between
// phases only, and shared memory in phases only.
//
// On the host a phase is a loop over the threads. The order of that loop is the caller's: results
// must not depend on it, so tests run every kernel in several orders and find a barrier that is
// missing.
#pragma once

#include "common/base/host_device.h"

namespace tandem::kernels {

// Before a loop that is not worth unrolling: kernels are compiled where they run, in seconds that
// a user waits for.
#ifdef __CUDACC_RTC__
#define TANDEM_NO_UNROLL _Pragma("unroll 1")
#else
#define TANDEM_NO_UNROLL
#endif

// Before a loop over an array that is to lie in registers.
#ifdef __CUDACC_RTC__
#define TANDEM_UNROLL _Pragma("unroll")
#else
#define TANDEM_UNROLL
#endif

inline constexpr uint32_t kWarp = 32;  // threads

// Threads that work together in a phase of warps (mma.h).
class Warp {
 public:
  TANDEM_HOST_DEVICE_INLINE explicit Warp(uint32_t number) : number_(number) {}
  TANDEM_HOST_DEVICE_INLINE uint32_t number() const { return number_; }

  // work(lane) for each of its threads.
  template <typename Work>
  TANDEM_HOST_DEVICE_INLINE void Each(Work work) const {
#ifdef __CUDACC_RTC__
    work(static_cast<int>(threadIdx.x % kWarp));
#else
    for (uint32_t lane = 0; lane < kWarp; ++lane) work(static_cast<int>(lane));
#endif
  }

 private:
  const uint32_t number_;
};

#ifdef __CUDACC_RTC__

class Block {
 public:
  TANDEM_HOST_DEVICE uint32_t x() const { return blockIdx.x; }
  TANDEM_HOST_DEVICE uint32_t y() const { return blockIdx.y; }

  template <typename Phase>
  TANDEM_HOST_DEVICE void Threads(Phase phase) const {
    phase(static_cast<int>(threadIdx.x));
    __syncthreads();
  }

  // Every warp of the block once, then a barrier.
  template <typename Phase>
  TANDEM_HOST_DEVICE void Warps(Phase phase) const {
    phase(Warp(threadIdx.x / kWarp));
    __syncthreads();
  }

  template <typename T>
  TANDEM_HOST_DEVICE T Read(const T& shared) const {
    const T value = shared;
    __syncthreads();
    return value;
  }

  // In a phase: adds to a counter that other threads add to, and gives what it was.
  TANDEM_HOST_DEVICE uint32_t Add(uint32_t& counter, uint32_t by) const {
    return atomicAdd(&counter, by);
  }
};

#else

// In which order the host runs the threads of a phase.
enum class ThreadOrder { kAscending, kDescending, kOddFirst };

class Block {
 public:
  Block(uint32_t x, uint32_t y, int threads, ThreadOrder order)
      : x_(x), y_(y), threads_(threads), order_(order) {}

  uint32_t x() const { return x_; }
  uint32_t y() const { return y_; }

  template <typename Phase>
  void Threads(Phase phase) const {
    for (int turn = 0; turn < threads_; ++turn) phase(ThreadOf(turn));
  }

  template <typename Phase>
  void Warps(Phase phase) const {
    for (int turn = 0; turn < threads_; ++turn) {
      const auto thread = static_cast<uint32_t>(ThreadOf(turn));
      if (thread % kWarp == 0) phase(Warp(thread / kWarp));
    }
  }

  template <typename T>
  T Read(const T& shared) const {
    return shared;
  }

  uint32_t Add(uint32_t& counter, uint32_t by) const {
    const uint32_t before = counter;
    counter += by;
    return before;
  }

 private:
  int ThreadOf(int turn) const {
    switch (order_) {
      case ThreadOrder::kAscending:
        return turn;
      case ThreadOrder::kDescending:
        return threads_ - 1 - turn;
      case ThreadOrder::kOddFirst:
        return turn < threads_ / 2 ? 2 * turn + 1 : 2 * (turn - threads_ / 2);
    }
    return turn;
  }

  uint32_t x_;
  uint32_t y_;
  int threads_;
  ThreadOrder order_;
};

#endif

// Loads that a thread asks for before it needs the first of them: memory answers after hundreds of
// cycles, so one at a time leaves a card idle. tests/torch/kernels/sass_test.cc counts them.
inline constexpr uint32_t kInFlight = 4;

// In a phase, behind loads and before what needs them: the compiler, which would rather have fewer
// registers than loads in flight, moves no load behind it. All threads of a warp come by, so no
// return or condition of some of them is before it: a card may wait for them forever.
TANDEM_HOST_DEVICE_INLINE void AskTogether() {
#ifdef __CUDACC_RTC__
  __syncwarp();
#endif
}

// How often a loop runs whose last turns change nothing: a card unrolls it to the end, the host
// leaves them out.
template <uint32_t kMost>
TANDEM_HOST_DEVICE_INLINE uint32_t Unrolled([[maybe_unused]] uint32_t count) {
#ifdef __CUDACC_RTC__
  return kMost;
#else
  return count;
#endif
}

// values[0] becomes all `threads` (a power of two) values put together. combine(a, b) must not
// depend on how they are grouped.
template <int kThreads, typename T, typename Combine>
TANDEM_HOST_DEVICE void Reduce(const Block& block, T* values, Combine combine) {
  static_assert((kThreads & (kThreads - 1)) == 0);
  TANDEM_NO_UNROLL
  for (int half = kThreads / 2; half > 0; half /= 2) {
    block.Threads([&](int t) {
      if (t < half) values[t] = combine(values[t], values[t + half]);
    });
  }
}

}  // namespace tandem::kernels
