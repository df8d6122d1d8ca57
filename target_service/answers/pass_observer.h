// What is seen of the device's thread. Traces and metrics are made behind it, so that what computes
// knows of neither.
//
//   PassEnds, StepAnswered for each Step that the pass decided, PassAnswered      one pass
//   StepAnswered, StepDropped                                                     in between: no
//   pass did it
//
// Nothing is called between a pass's begin and its end, so what passes are measured to cost is what
// the model costs.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/concurrency/instant.h"
#include "common/telemetry/span_context.h"
#include "tandem/internal/v1/target.pb.h"
#include "target_service/answers/work.h"

namespace tandem::target_service {

// Valid during the call, like the next one.
struct EndedPass {
  uint64_t id = 0;  // Verdict.pass_id
  concurrency::Instant began;
  absl::Duration computed;
  uint32_t rows = 0;
  const absl::Status& status;     // not OK: all its Steps end with INTERNAL
  absl::Span<Work* const> works;  // the Steps that had rows in it

  uint32_t sequences() const { return static_cast<uint32_t>(works.size()); }
};

struct AnsweredStep {
  const internal::v1::Verdict& verdict;
  const std::optional<telemetry::SpanContext>& trace;  // CheckedStep::trace
  concurrency::Instant arrived;
  const Work* work = nullptr;  // null: it was refused before it came to the device
};

// Called by the device's thread alone, which waits meanwhile.
class PassObserver {
 public:
  virtual ~PassObserver() = default;

  virtual void PassEnds(const EndedPass& /*pass*/) {}
  virtual void PassAnswered() {}
  virtual void StepAnswered(const AnsweredStep& /*step*/) {}
  // Its stream is gone: nobody will read a verdict.
  virtual void StepDropped(const Work& /*work*/) {}
};

// For those that nobody looks at.
inline PassObserver& NoObserver() {
  static PassObserver observer;
  return observer;
}

}  // namespace tandem::target_service
