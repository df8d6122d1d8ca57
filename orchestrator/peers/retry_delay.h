// The back-off of one who tries again: concurrency::Backoff with a count of failures and jitter of
// its own.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/concurrency/backoff.h"
#include "common/random/random.h"

namespace tandem::orchestrator {

// A seed of jitter that no other sample of any request has: who fails at the same time tries again
// at different times, whatever seeds the clients chose. FNV-1a, 64 bits.
constexpr uint64_t RetrySeed(absl::string_view request_id, uint32_t sample_index) {
  constexpr uint64_t kPrime = 0x100'0000'01b3;
  uint64_t hash = 0xcbf2'9ce4'8422'2325;
  for (char letter : request_id) hash = (hash ^ static_cast<uint8_t>(letter)) * kPrime;
  for (int shift = 0; shift < 32; shift += 8) {
    hash = (hash ^ ((sample_index >> shift) & 0xff)) * kPrime;
  }
  return hash;
}

// Not thread-safe.
class RetryDelay {
 public:
  // `seed`: of the jitter; two that share one wait alike.
  RetryDelay(absl::Duration min, absl::Duration max, uint64_t seed) : seed_(seed) {
    backoff_.initial = min;
    backoff_.max = max;
  }

  absl::Duration Next() {
    const double uniform = random::Uniform({seed_, 0, tries_++}, 0, random::Purpose::kUser);
    return backoff_.Delay(++failures_, uniform);
  }

  void Reset() { failures_ = 0; }

 private:
  concurrency::Backoff backoff_;
  const uint64_t seed_;
  int failures_ = 0;
  uint32_t tries_ = 0;
};

}  // namespace tandem::orchestrator
