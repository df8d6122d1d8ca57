// Builds the single verdict of each Step, from the engine's results or from the reason why nothing
// is computed for it, and sends it on its stream.
//
// Not thread-safe: used on the device's thread only.
#pragma once

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/messages/refusal.h"
#include "target_service/answers/pass_observer.h"
#include "target_service/answers/streams.h"
#include "target_service/answers/work.h"
#include "target_service/engine/engine.h"
#include "target_service/sequences/sequence_table.h"

namespace tandem::target_service {

class Answers {
 public:
  // All of them outlive this.
  Answers(Streams& streams, SequenceTable& table, const concurrency::Clock& clock,
          PassObserver& observer)
      : streams_(streams), table_(table), clock_(clock), observer_(observer) {}

  // A Step that does not reach the device, or stops there. An answered one stays answered.
  void Refuse(Work& work, messages::Refusal refusal);
  void Refuse(Stream& stream, RefusedStep step, concurrency::Instant arrived);
  // Its deadline had passed before work on it began.
  void RefuseExpired(Work& work);
  // INTERNAL, and its sequence ends.
  void Fail(Work& work, std::string message);

  // The results of a pass for the Step's rows. The Step is answered when no rows are left, or when
  // it failed. Returns whether a round of its sequence ended, so its client may return at once.
  bool AddResult(Work& work, const PartResult& result);
  // STATUS_OK; the Step is completely computed.
  void Complete(Work& work, const PartResult& result);

  // Sends the finished verdicts in messages of bounded size, each with a report. A stream that
  // waits for verdicts and has received nothing for kQuiet gets a report alone: the device works
  // for others or on a long prompt.
  void Send(absl::FunctionRef<v1::Load(Stream& stream)> load_for);

 private:
  static constexpr absl::Duration kQuiet = absl::Milliseconds(100);

  // Observed, and to be sent.
  void Put(Stream& stream, internal::v1::Verdict verdict,
           const std::optional<telemetry::SpanContext>& trace, concurrency::Instant arrived,
           const Work* work);

  Streams& streams_;
  SequenceTable& table_;
  const concurrency::Clock& clock_;
  PassObserver& observer_;
};

}  // namespace tandem::target_service
