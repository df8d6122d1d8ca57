// Several targets on the wire's level, the pool over them, and loops that go through it: all in
// memory, on one fake clock, one event at a time.
//
//   PoolHarness harness(2);                      // targets, connected
//   harness.Add(SmallRequest(0u));
//   harness.target(0).on_step = …;               // the script: what goes wrong
//   harness.Run();                               // until all requests have ended
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "orchestrator/loop/strand_timers.h"
#include "orchestrator/verify/target_pool.h"
#include "orchestrator/verify/verify_client.h"
#include "tests/orchestrator/harness/loop_harness.h"
#include "tests/orchestrator/harness/wire_target.h"

namespace tandem::orchestrator {

class PoolHarness {
 public:
  // Targets "a", "b", …, all of them in the list.
  explicit PoolHarness(int targets, LoopOptions loop = {}, TargetPoolOptions pool = {.seed = 5});
  ~PoolHarness();

  struct Request;
  // Begins it. Its text is that of LoopHarness, without a draft.
  Request& Add(GenerationRequest request);

  WireTarget& target(size_t i) { return *targets_[i]; }
  TargetPool& pool() { return *pool_; }
  VerifyClient& client(size_t i) { return *clients_[i]; }  // the last one made for it

  // Those that are named from now on: "bc" are targets 1 and 2. Delivers nothing.
  void SetPeers(const std::string& names, std::vector<std::string> problems = {});

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
  std::shared_ptr<VerifyClient> MakeClient(const PeerAddress& peer);

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
  UnreadCall unread{nullptr};
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
