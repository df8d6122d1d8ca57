// What the device's thread tells of its work and its speed (Load, tokens.proto).
//
// Thread safety: the device's thread alone, but for Latest().
#pragma once

#include "absl/time/time.h"
#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "tandem/v1/target.pb.h"
#include "target_service/passes.h"
#include "target_service/sequence_table.h"
#include "target_service/streams.h"
#include "target_service/waiting_steps.h"

namespace tandem::target_service {

class LoadReports {
 public:
  // All of them outlive this. The time that the device has been idle counts from now on.
  LoadReports(SequenceTable& table, const WaitingSteps& waiting, const Passes& passes,
              const concurrency::Clock& clock)
      : table_(table), waiting_(waiting), passes_(passes), clock_(clock), started_(clock.Now()) {}

  // As the stream is told it: with the slots that it could take, and with the cost curve when
  // that has changed since it was told.
  v1::Load For(Stream& stream);

  // Makes what Latest gives.
  void Publish() TANDEM_EXCLUDES(mutex_);
  // From any thread. With the whole cost curve; free_slots: of anybody; idle as of now.
  v1::Load Latest() const TANDEM_EXCLUDES(mutex_);

 private:
  // A client is told the cost curve again when a point has changed by more than this share.
  static constexpr double kCurveChange = 0.2;

  v1::Load Now() const;

  SequenceTable& table_;
  const WaitingSteps& waiting_;
  const Passes& passes_;
  const concurrency::Clock& clock_;
  const concurrency::Instant started_;

  mutable concurrency::Mutex mutex_;
  v1::Load published_ TANDEM_GUARDED_BY(mutex_);  // but for idle_us
};

}  // namespace tandem::target_service
