// A target on the wire's level, in memory, on a fake clock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "orchestrator/peers/connector.h"
#include "tandem/internal/v1/target.pb.h"
#include "tests/orchestrator/harness/loop_harness.h"
#include "tests/orchestrator/harness/table_sequence.h"

namespace tandem::orchestrator {

// A target with slots, whose streams open and break as the test wants.
class WireTarget {
 public:
  enum class Do { kAnswer, kDrop };

  WireTarget(testing::FakeClock& clock, const testing::TableModel& model, std::deque<Event>& queue)
      : clock_(clock), model_(model), queue_(queue) {}

  static testing::TableModelOptions ModelOptions();  // of `model`

  OpenStream<internal::v1::TargetRequest, internal::v1::TargetReply> Opener();

  // Called with the verdict that would be given.
  std::function<Do(const internal::v1::Step&, internal::v1::Verdict&)> on_step;
  v1::Welcome welcome;
  bool reachable = true;  // to new streams
  uint32_t slots = 64;
  // Tokens that its sequences have room for together; it gives it to whoever comes. 0: to all, and
  // it tells nothing of it.
  int64_t room = 0;
  uint32_t queued_rows = 0;                               // to be reported
  std::vector<std::pair<uint32_t, uint32_t>> cost_curve;  // likewise: rows, microseconds
  bool reports = true;
  absl::Duration step_time = absl::Milliseconds(10);
  absl::Duration retry_after = absl::Milliseconds(50);

  void Cut();                   // the stream; a new one may come
  void Kill();                  // the stream, and no new one
  void Report();                // tells its load, with no verdict
  uint32_t free_slots() const;  // of `slots`
  int64_t free_room() const;    // of `room`
  bool open() const;            // there is a stream

  int streams = 0;
  int steps = 0;
  int opened = 0;     // sequences that got a slot
  int overruled = 0;  // Steps that found no slot
  std::vector<uint64_t> sequences() const;

 private:
  class Stream;

  void OnRequest(const std::shared_ptr<Stream>& stream, const internal::v1::TargetRequest& request);
  void OnStep(const std::shared_ptr<Stream>& stream, const internal::v1::Step& step);
  void Reply(const std::shared_ptr<Stream>& stream, internal::v1::TargetReply reply);
  void Forget(uint64_t sequence);
  void ForgetAll();
  v1::Load CurrentLoad() const;

  testing::FakeClock& clock_;
  const testing::TableModel& model_;
  std::deque<Event>& queue_;
  std::shared_ptr<Stream> stream_;  // the present one
  std::map<uint64_t, TableSequence> held_;
  std::map<uint64_t, int64_t> reserved_;  // tokens of those held
};

}  // namespace tandem::orchestrator
