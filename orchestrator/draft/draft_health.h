// How long a draft is left alone: because it failed, or because it said that it has no slot.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "orchestrator/draft/draft_client.h"
#include "orchestrator/peers/ejection.h"
#include "orchestrator/peers/peer_health.h"

namespace tandem::orchestrator {

// Not thread-safe: guarded by the pool's lock. All times are of one steady clock.
class DraftHealth {
 public:
  // The answers that the client counts are the draft's good work.
  DraftHealth(std::shared_ptr<const DraftClient> client, Ejection ejection)
      : client_(std::move(client)), health_(ejection) {}

  // Ejects the draft after a failure. Many requests lose the same draft together, and that counts
  // as one failure. Returns true for the first ejection since the draft worked.
  bool Eject(concurrency::Instant now) {
    const bool worked = health_.Look(client_->status().answers);
    const bool before = ejections() > 0;
    return health_.Eject(now) && (worked || !before);
  }
  // The draft has no slot until then. That is not a failure.
  void Full(concurrency::Instant until) { full_until_ = std::max(full_until_, until); }

  bool Ejected(concurrency::Instant now) const {
    return health_.Ejected(now, client_->status().answers);
  }
  // A time in the past means that it is not left alone.
  concurrency::Instant AloneUntil(concurrency::Instant now) const {
    return Ejected(now) ? std::max(health_.until(), full_until_) : full_until_;
  }
  concurrency::Instant until() const {
    return health_.until();
  }  // of an ejection, while there is one
  uint64_t ejections() const { return health_.ejections(); }

 private:
  const std::shared_ptr<const DraftClient> client_;
  PeerHealth health_;
  concurrency::Instant full_until_;
};

}  // namespace tandem::orchestrator
