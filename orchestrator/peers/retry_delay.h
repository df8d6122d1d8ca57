// The back-off before another try: concurrency::Backoff with a count of failures and with jitter.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "common/concurrency/backoff.h"
#include "common/random/random.h"

namespace tandem::orchestrator {

// The seed of the jitter of a request's sample. It differs for each request and each sample.
// Neither the seed of their text nor the id of the request serves, because clients give the same to
// many requests. `retry_seed`: GenerationRequest's. (FNV-1a, 64 bits.)
inline uint64_t RetrySeed(uint64_t retry_seed, uint32_t sample_index) {
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (int shift = 0; shift < 64; shift += 8) add(static_cast<uint8_t>(retry_seed >> shift));
  for (int shift = 0; shift < 32; shift += 8) add(static_cast<uint8_t>(sample_index >> shift));
  return hash;
}

// Not thread-safe.
class RetryDelay {
 public:
  // `seed` is for the jitter. Two with the same seed wait alike.
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
