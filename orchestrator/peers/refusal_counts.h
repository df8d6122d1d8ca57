// Counts how often each peer was found not to fit.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "common/concurrency/mutex.h"
#include "orchestrator/peers/connector.h"
#include "tandem/v1/describe.pb.h"

namespace tandem::orchestrator {

// A peer's role and address.
using RefusalKey = std::pair<v1::Peer::Role, std::string>;

// Thread-safe.
class RefusalCounts : public std::enable_shared_from_this<RefusalCounts> {
 public:
  // The same check. It counts what it refuses.
  CheckWelcome Counted(v1::Peer::Role role, const std::string& address, CheckWelcome check);
  // Since the start; without those that were never refused.
  std::map<RefusalKey, uint64_t> counts() const;

 private:
  mutable concurrency::Mutex mutex_;
  std::map<RefusalKey, uint64_t> counts_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::orchestrator
