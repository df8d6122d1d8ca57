// Leaves a target alone for a while after it failed sessions.
//
// A target is ejected if a Step's watchdog gave its stream up, or if it failed sessions
// kFaultsInARow times without a good verdict between. A good verdict ends the ejection. A new
// stream does not, because a target whose device hangs greets as well as any. Sessions that are at
// the target when faults eject it stay until it fails them, too.
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

// Not thread-safe: guarded by the pool's lock. All times are of one steady clock.
class TargetHealth {
 public:
  static constexpr uint32_t kFaultsInARow = 3;

  // `pace` counts the good verdicts, on any thread.
  TargetHealth(std::shared_ptr<const TargetPace> pace, Ejection ejection)
      : pace_(std::move(pace)), health_(ejection) {}

  // Notes the good verdicts since the last call.
  void Look() {
    if (health_.Look(pace_->good())) faults_ = 0;
  }
  // A new stream began. Verdicts that an ejected target's old stream still brought do not end the
  // ejection.
  void StreamBegan(concurrency::Instant now) {
    if (health_.Ejected(now)) health_.Discount(pace_->good());
  }

  // The target failed a session. Returns whether it must be ejected for that. A target that was
  // ejected and has done nothing good since must be after one fault.
  bool Fault() {
    Look();
    return ++faults_ >= kFaultsInARow;
  }
  uint32_t faults() const { return faults_; }  // without a good verdict between

  // Returns false if it is ejected already.
  bool Eject(concurrency::Instant now) {
    Look();
    return health_.Eject(now);
  }

  // Takes into account good verdicts that were not noted yet.
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
