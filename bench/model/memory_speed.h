// How fast memory is read, to compare passes with.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "bench/model/timing.h"
#include "model/cpu/buffer.h"
#include "model/cpu/thread_team.h"

namespace tandem::bench {

// Reads a buffer that no cache holds, on some threads, each one part from its begin to its end. The
// buffer lies on huge pages where there are some, as weights do.
class MemorySpeed {
 public:
  explicit MemorySpeed(int threads) : team_(threads), buffer_(kBytes), sums_(threads * kGap) {
    std::memset(buffer_.data(), 1, kBytes);
  }

  // Bytes a microsecond.
  double Measure() {
    const int threads = team_.size();
    auto read = [&](int member) {
      const auto* words = static_cast<const uint64_t*>(buffer_.data());
      const size_t share = kBytes / sizeof(uint64_t) / threads / kAtOnce * kAtOnce;
      const uint64_t* const end = words + share * (member + 1);
      uint64_t sums[kAtOnce] = {};
      for (const uint64_t* at = words + share * member; at != end; at += kAtOnce) {
        for (int i = 0; i < kAtOnce; ++i) sums[i] ^= at[i];
      }
      for (uint64_t sum : sums) sums_[member * kGap] += sum;
    };
    const double time = Microseconds([&] { team_.RunUneven(read, threads); });
    return static_cast<double>(kBytes) / time;
  }

 private:
  static constexpr size_t kBytes = size_t{256} << 20;
  static constexpr int kAtOnce = 16;  // words that are independent of each other
  static constexpr int kGap = 16;     // words from one member's sum to the next one's

  model::cpu::ThreadTeam team_;
  model::cpu::Buffer buffer_;
  std::vector<uint64_t> sums_;  // somebody might read them
};

}  // namespace tandem::bench
