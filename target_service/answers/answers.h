// Makes the one verdict of each Step, out of what the engine told of it or of why nothing is
// computed for it, and sends it on its stream.
//
// Thread safety: none; the device's thread alone.
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

  // A Step that does not get to the device, or no further. One that is answered stays so.
  void Refuse(Work& work, messages::Refusal refusal);
  void Refuse(Stream& stream, RefusedStep step, concurrency::Instant arrived);
  // It had no time left when work on it would have begun.
  void RefuseExpired(Work& work);
  // INTERNAL, and its sequence ends.
  void Fail(Work& work, std::string message);

  // What a pass gave of the Step's rows. The Step is answered when none are left, or when it
  // failed. Whether a round of its sequence ended with it: its client may come back at once.
  bool AddResult(Work& work, const PartResult& result);
  // STATUS_OK; nothing of the Step is left to compute.
  void Complete(Work& work, const PartResult& result);

  // Sends the verdicts that were made, in messages of a bounded size. Each has a report. A stream
  // that is owed verdicts and has heard nothing for kQuiet gets a report alone: the device works,
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
