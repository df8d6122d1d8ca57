// Who is connected to the device, and which verdicts wait to go out to whom.
//
// Thread safety: none; the device's thread alone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/concurrency/instant.h"
#include "common/scheduling/cost_curve.h"
#include "tandem/v1/target.pb.h"
#include "target_service/slot_shares.h"
#include "target_service/step_queue.h"

namespace tandem::target_service {

struct Stream {
  StreamId id = 0;
  std::string client_id;
  uint64_t incarnation = 0;
  std::shared_ptr<VerdictSink> sink;
  v1::Verdicts outgoing;
  bool finishing = false;  // the client sends nothing more
  // When it last asked for something.
  concurrency::Instant last_step = concurrency::Instant::InfinitePast();
  std::vector<scheduling::CostCurve::Point> told_curve;  // as the client knows it
};

class Streams {
 public:
  // False: its client has come with a higher incarnation since, so its sink was closed.
  bool Begin(StreamBegins event);
  // Its sink is closed with `status`; absent: it is gone already.
  void End(StreamId id, const std::optional<absl::Status>& status);

  Stream* Find(StreamId id);  // null: it was ended
  Stream& At(StreamId id) { return *streams_.at(id); }
  std::vector<StreamId> All() const;
  std::vector<StreamId> Finishing() const;
  // Those that asked for something lately: they compete for the device.
  int Active(concurrency::Instant now) const;

  // Sends what waits to go out, in messages of a bounded size. Each has a report.
  void Send(absl::FunctionRef<v1::Load(Stream& stream)> load_for);

 private:
  // A stream that asked for nothing for so long does not compete.
  static constexpr absl::Duration kActive = absl::Seconds(1);

  absl::flat_hash_map<StreamId, std::unique_ptr<Stream>> streams_;
};

}  // namespace tandem::target_service
