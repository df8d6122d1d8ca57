// Several targets on the wire's level, the pool over them, and loops that go through it: all in memory, on
// one fake clock, one event at a time.
//
//   PoolHarness harness(2);                      // targets, connected
//   harness.Add(SmallRequest(0u));
//   harness.target(0).on_step = …;               // the script: what goes wrong
//   harness.Run();                               // until all requests have ended
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "orchestrator/generate/strand_timers.h"
#include "orchestrator/verify/target_pool.h"
#include "orchestrator/verify/verify_client.h"
#include "tests/orchestrator/loop_harness.h"
#include "tests/orchestrator/table_sequence.h"

namespace tandem::orchestrator {

// A target with slots, whose streams open and break as the test wants.
class WireTarget {
 public:
  enum class Do { kAnswer, kDrop };

  WireTarget(testing::FakeClock& clock, const testing::TableModel& model, std::deque<Event>& queue)
      : clock_(clock), model_(model), queue_(queue) {}

  OpenStream<v1::TargetRequest, v1::TargetReply> Opener();

  // Called with the verdict that would be given.
  std::function<Do(const v1::Step&, v1::Verdict&)> on_step;
  v1::Welcome welcome;
  bool reachable = true;  // to new streams
  uint32_t slots = 64;
  uint32_t queued_rows = 0;  // to be reported
  bool reports = true;
  absl::Duration step_time = absl::Milliseconds(10);
  absl::Duration retry_after = absl::Milliseconds(50);

  void Cut();                   // the stream; a new one may come
  void Kill();                  // the stream, and no new one
  void Report();                // tells its load, with no verdict
  uint32_t free_slots() const;  // of `slots`

  int streams = 0;
  int steps = 0;
  int opened = 0;     // sequences that got a slot
  int overruled = 0;  // Steps that found no slot
  std::vector<uint64_t> sequences() const;

 private:
  class Stream;

  void OnRequest(const std::shared_ptr<Stream>& stream, const v1::TargetRequest& request);
  void OnStep(const std::shared_ptr<Stream>& stream, const v1::Step& step);
  void Reply(const std::shared_ptr<Stream>& stream, v1::TargetReply reply);
  v1::Load CurrentLoad() const;

  testing::FakeClock& clock_;
  const testing::TableModel& model_;
  std::deque<Event>& queue_;
  std::shared_ptr<Stream> stream_;  // the present one
  std::map<uint64_t, TableSequence> held_;
};

class PoolHarness {
 public:
  explicit PoolHarness(int targets, LoopOptions loop = {});
  ~PoolHarness();

  struct Request;
  // Begins it. Its text is that of LoopHarness, without a draft.
  Request& Add(GenerationRequest request);

  WireTarget& target(size_t i) { return *targets_[i]; }
  TargetPool& pool() { return *pool_; }
  VerifyClient& client(size_t i) { return *clients_[i]; }

  bool DeliverOne();
  void DeliverAll();
  // Events, then the clock, until all requests have ended, or `until` says so.
  void Run(const std::function<bool()>& until = nullptr);

  testing::FakeClock clock;
  testing::FakeTimers timers{clock};
  std::deque<Event> queue;

 private:
  const LoopOptions loop_;
  testing::TableModel model_;
  RoundObserver observer_;
  std::vector<std::unique_ptr<WireTarget>> targets_;
  std::vector<std::shared_ptr<VerifyClient>> clients_;
  std::shared_ptr<TargetPool> pool_;
  std::vector<std::unique_ptr<Request>> requests_;
};

// One request of a PoolHarness.
struct PoolHarness::Request {
  class Events;

  void Cancel() { loop->OnCancel(absl::CancelledError("the client went away")); }
  const std::vector<uint32_t>& output() const { return reader.ids; }

  GenerationRequest request;
  FakeReader reader;
  std::unique_ptr<TokenStream> stream;
  std::shared_ptr<Events> events;
  std::unique_ptr<StrandTimers> timers;
  std::unique_ptr<VerifySession> session;
  std::unique_ptr<SpeculationLoop> loop;
  std::optional<Ending> ending;
};

// The ids that a target alone gives for it.
std::vector<uint32_t> PlainIds(const GenerationRequest& request);

}  // namespace tandem::orchestrator
