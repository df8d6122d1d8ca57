// Whether a target is left alone for a while, because it failed sessions.
//
// Ejected is a target when a Step's watchdog gave its stream up, and when it failed sessions
// kFaultsInARow times with no good verdict between. A good verdict ends it; a new stream does not:
// a target whose device hangs greets as politely as any. Sessions that are at a target when its
// faults eject it stay until it fails them, too.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "orchestrator/peers/ejection.h"
#include "orchestrator/peers/peer_health.h"
#include "orchestrator/verify/target_pace.h"

namespace tandem::orchestrator {

// Not thread-safe: its pool's lock. Times are of one steady clock.
class TargetHealth {
 public:
  static constexpr uint32_t kFaultsInARow = 3;

  // `pace` counts the good verdicts, of whichever thread.
  TargetHealth(std::shared_ptr<const TargetPace> pace, Ejection ejection)
      : pace_(std::move(pace)), health_(ejection) {}

  // Takes notice of good verdicts since the last call.
  void Look() {
    if (health_.Look(pace_->good())) faults_ = 0;
  }
  // A new stream began. What an ejected target's old stream still brought to somebody ends nothing.
  void StreamBegan(concurrency::Instant now) {
    if (health_.Ejected(now)) health_.Discount(pace_->good());
  }

  // It failed a session. Returns whether it is to be ejected for that: one that was ejected and has
  // done nothing good since is for the next fault.
  bool Fault() {
    Look();
    return ++faults_ >= kFaultsInARow;
  }
  uint32_t faults() const { return faults_; }  // with no good verdict between

  // False: it is ejected already.
  bool Eject(concurrency::Instant now) {
    Look();
    return health_.Eject(now);
  }

  // With good verdicts that nobody took notice of yet.
  bool Ejected(concurrency::Instant now) const { return health_.Ejected(now, pace_->good()); }
  concurrency::Instant until() const {
    return health_.until();
  }  // of an ejection, while there is one
  uint64_t ejections() const { return health_.ejections(); }

 private:
  const std::shared_ptr<const TargetPace> pace_;
  PeerHealth health_;
  uint32_t faults_ = 0;
};

}  // namespace tandem::orchestrator
