// What the device's thread tells of its work and its speed (Load, describe.proto): what its meter
// has, the slots and the cost curve.
//
// Thread safety: the device's thread alone, but for Latest().
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/concurrency/clock.h"
#include "common/concurrency/mutex.h"
#include "common/scheduling/cost_curve.h"
#include "common/serving/load_meter.h"
#include "tandem/internal/v1/target.pb.h"
#include "target_service/answers/streams.h"
#include "target_service/passes/passes.h"
#include "target_service/passes/waiting_steps.h"
#include "target_service/sequences/sequence_table.h"

namespace tandem::target_service {

class LoadReports {
 public:
  // All of them outlive this.
  LoadReports(SequenceTable& table, const WaitingSteps& waiting, const Passes& passes,
              const concurrency::Clock& clock, serving::LoadMeter& meter)
      : table_(table), waiting_(waiting), passes_(passes), clock_(clock), meter_(meter) {}

  // As the stream is told it: with the slots and the room that it could take, and with the cost
  // curve when that has changed since it was told.
  v1::Load For(Stream& stream);

  // Makes what Latest gives.
  void Publish() TANDEM_EXCLUDES(mutex_);
  // From any thread. With the whole cost curve; free_slots and free_tokens: of anybody; the times
  // as of now.
  v1::Load Latest() const TANDEM_EXCLUDES(mutex_);

 private:
  v1::Decoding Decoding() const;

  // A client is told the cost curve again when a point has changed by more than this share.
  static constexpr double kCurveChange = 0.2;

  SequenceTable& table_;
  const WaitingSteps& waiting_;
  const Passes& passes_;
  const concurrency::Clock& clock_;
  serving::LoadMeter& meter_;

  mutable concurrency::Mutex mutex_;
  std::vector<scheduling::CostCurve::Point> published_ TANDEM_GUARDED_BY(mutex_);
  std::optional<int64_t> published_tokens_ TANDEM_GUARDED_BY(mutex_);
  v1::Decoding published_decoding_ TANDEM_GUARDED_BY(mutex_);
};

}  // namespace tandem::target_service
