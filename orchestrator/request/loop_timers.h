// The loop's alarms, by name. At most one of each kind is set. An alarm that was replaced or
// cancelled never fires.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace tandem::orchestrator {

enum class LoopTimer : uint8_t {
  kDraftDeadline,    // the round's block is late
  kDraftReopen,      // back-off before the draft is opened again
  kWatchdog,         // the Step is unanswered for too long
  kRetry,            // back-off before the Step is sent again
  kTargetPatience,   // there has been no good verdict for too long
  kReader,           // the reader is slow: close the sequences, later end the request
  kRequestDeadline,  // the client's deadline
};
inline constexpr int kLoopTimers = 7;

// Called on the loop's strand. Alarms fire there too, as SpeculationLoop::OnTimer(kind).
class LoopTimers {
 public:
  virtual ~LoopTimers() = default;
  virtual void Set(LoopTimer timer, absl::Duration delay) = 0;  // replaces the alarm of this kind
  virtual void Cancel(LoopTimer timer) = 0;                     // does nothing if it is not set
};

}  // namespace tandem::orchestrator
