// Many clients on a few threads: each sends a request after the other. Some cancel, some set a
// deadline, some read slowly, some stop reading for so long that they are thrown out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/concurrency/mutex.h"
#include "common/concurrency/system_clock.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/soak/tally.h"
#include "tests/support/table_model.h"

namespace tandem::testing {

struct ManyClientsOptions {
  std::string address;  // of the orchestrator
  int clients = 1000;
  int channels = 16;
  uint64_t seed = 1;
  absl::Duration stuck = absl::ZeroDuration();  // how long a stuck reader does not read; 0: none is
  bool may_be_refused = false;                  // else RESOURCE_EXHAUSTED comes of a deadline alone
};

// Thread-safe. The tally's endings: ok, cancelled, deadline, refused, aborted. Every other end, and
// every end without its reason, is Wrong.
class ManyClients {
 public:
  // `table`: the target's model, for what is expected. Both references outlive this.
  ManyClients(ManyClientsOptions options, const TableModel& table, Tally& tally);
  ~ManyClients();  // after Stop

  void Start();
  // No new requests. True when all that run have ended; false after `patience`.
  bool Stop(absl::Duration patience);

  uint64_t started() const { return started_; }
  int running() const { return running_; }
  uint64_t tokens() const { return tokens_; }

 private:
  class Request;
  struct Plan;

  Plan MakePlan();
  void Next();
  void Ended(const Plan& plan, const class EndedRequest& ended);

  const ManyClientsOptions options_;
  const TableModel& table_;
  Tally& tally_;
  std::vector<std::unique_ptr<v1::Generation::Stub>> stubs_;
  // Their readers are cramped: what they do not read soon fills the way back to the orchestrator.
  std::unique_ptr<v1::Generation::Stub> narrow_stub_;
  std::atomic<uint64_t> started_{0}, tokens_{0};
  std::atomic<int> running_{0};
  std::atomic<bool> stop_{false};
  concurrency::Mutex mutex_;
  std::mt19937_64 random_ TANDEM_GUARDED_BY(mutex_);
  concurrency::ThreadTimers timers_;  // the last member: its functions use all others
};

}  // namespace tandem::testing
