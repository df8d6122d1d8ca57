// How the requests of many clients ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "common/concurrency/mutex.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::testing {

// Thread-safe.
class Tally {
 public:
  void Ended(const std::string& how);
  void Wrong(const std::string& what);  // fails the test; the first few are shown
  void Add(const v1::AcceptanceRecord& record);

  uint64_t count(const std::string& how) const;
  uint64_t replays() const { return replays_; }
  uint64_t reconnections() const { return reconnections_; }
  std::string Text() const;

 private:
  mutable concurrency::Mutex mutex_;
  std::map<std::string, uint64_t> endings_ TANDEM_GUARDED_BY(mutex_);
  uint64_t wrong_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::atomic<uint64_t> replays_{0}, reconnections_{0};
};

}  // namespace tandem::testing
