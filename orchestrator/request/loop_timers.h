// The loop's alarms, by name. At most one of each kind is set; an alarm that was set anew or taken
// back never fires.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace tandem::orchestrator {

enum class LoopTimer : uint8_t {
  kDraftDeadline,    // the round's block is late
  kDraftReopen,      // back-off before the draft is opened again
  kWatchdog,         // the Step is unanswered for too long
  kRetry,            // back-off before the Step is sent again
  kTargetPatience,   // the target has been of no use for too long
  kReader,           // the reader is slow: close the sequences, later end the request
  kRequestDeadline,  // the client's time is over
};
inline constexpr int kLoopTimers = 7;

// Called on the loop's strand; fires there too, as SpeculationLoop::OnTimer(kind).
class LoopTimers {
 public:
  virtual ~LoopTimers() = default;
  virtual void Set(LoopTimer timer, absl::Duration delay) = 0;  // replaces the one of this kind
  virtual void Cancel(LoopTimer timer) = 0;                     // nothing set: does nothing
};

}  // namespace tandem::orchestrator
