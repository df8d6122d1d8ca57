#include "orchestrator/peers/refusal_counts.h"

#include <functional>

#include "absl/status/status.h"

namespace tandem::orchestrator {

CheckWelcome RefusalCounts::Counted(v1::Peer::Role role, const std::string& address,
                                    CheckWelcome check) {
  return [self = shared_from_this(), key = RefusalKey(role, address), check = std::move(check)](
             const v1::Welcome& welcome, std::function<void(absl::Status)> done) {
    check(welcome, [self, key, done = std::move(done)](absl::Status fits) {
      if (!fits.ok()) {
        concurrency::MutexLock lock(self->mutex_);
        ++self->counts_[key];
      }
      done(std::move(fits));
    });
  };
}

std::map<RefusalKey, uint64_t> RefusalCounts::counts() const {
  concurrency::MutexLock lock(mutex_);
  return counts_;
}

}  // namespace tandem::orchestrator
