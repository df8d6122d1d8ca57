// What code needs that a host's compiler and NVRTC compile alike: whole numbers of a fixed width,
// copies of bits, and how functions are marked (…_INLINE: they are always inlined). NVRTC has no
// standard headers, so files that it reads include this one instead of <cstdint> and <cstring>.
//
// Such a file gives the same bits on both sides as long as neither fuses a product and a sum:
// -ffp-contract=off here, --fmad=false there.
//
// Thread safety: pure functions.
#pragma once

#ifdef __CUDACC_RTC__

#define TANDEM_HOST_DEVICE __device__ inline
#define TANDEM_HOST_DEVICE_INLINE __device__ __forceinline__

using int8_t = signed char;
using int32_t = int;
using int64_t = long long;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;

#else

#include <cstdint>
#include <cstring>

#define TANDEM_HOST_DEVICE inline
#define TANDEM_HOST_DEVICE_INLINE [[gnu::always_inline]] inline

#endif

namespace tandem::base {

// `from` as a To of the same size, bit by bit.
template <typename To, typename From>
TANDEM_HOST_DEVICE_INLINE To BitsAs(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace tandem::base
