// The streams that are connected to the device, and the share of each.
//
// Thread safety: none; the device's thread alone.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/scheduling/cost_curve.h"
#include "common/serving/stream_table.h"
#include "tandem/internal/v1/target.pb.h"

namespace tandem::target_service {

// It is owed verdicts.
struct Stream : serving::BaseStream<internal::v1::TargetReply> {
  internal::v1::Verdicts outgoing;
  // When it last asked for something.
  concurrency::Instant last_step = concurrency::Instant::InfinitePast();
  // Since when it has heard nothing though it is owed verdicts; without them it means nothing.
  concurrency::Instant quiet_since = concurrency::Instant::InfinitePast();
  std::vector<scheduling::CostCurve::Point> told_curve;  // as the client knows it
};

using Streams = serving::StreamTable<Stream>;

// Those that asked for something lately: they compete for the device.
int ActiveStreams(const Streams& streams, concurrency::Instant now);
// A stream of the same client has a higher incarnation.
bool IsOvertaken(const Stream& stream, const Streams& streams);
// What such a stream ends with.
absl::Status Overtaken();

}  // namespace tandem::target_service
