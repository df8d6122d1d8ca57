// Clients of every kind, and the tally of how their requests ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/concurrency/mutex.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/status.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/support/table_model.h"

namespace tandem::testing {

// Thread-safe.
class Tally {
 public:
  void Ended(const std::string& how);
  void Wrong(const std::string& what);  // fails the test; the first few are shown
  void Add(const v1::AcceptanceRecord& record);

  uint64_t count(const std::string& how) const;
  uint64_t replays() const { return replays_; }
  uint64_t reconnections() const { return reconnections_; }
  std::string Text() const;

 private:
  mutable concurrency::Mutex mutex_;
  std::map<std::string, uint64_t> endings_ TANDEM_GUARDED_BY(mutex_);
  uint64_t wrong_ TANDEM_GUARDED_BY(mutex_) = 0;
  std::atomic<uint64_t> replays_{0}, reconnections_{0};
};

// One client: a request after the other until it is told to stop. Some are cancelled, some read
// slowly, some have a deadline.
class Client {
 public:
  // `table`: the target's model, for what is expected. Both references outlive this.
  Client(const std::shared_ptr<grpc::Channel>& channel, const TableModel& table, Tally& tally,
         uint64_t seed);

  void Run(const std::atomic<bool>& stop);

 private:
  struct Plan {
    v1::GenerateRequest request;
    int cancel_after = -1;  // deltas; -1: never
    bool slow = false;
    bool deadline = false;
  };
  struct Outcome {
    grpc::Status status;
    int starts = 0, lasts = 0;
    v1::Last last;
    std::vector<uint32_t> ids;
    std::string text;
  };

  Plan MakePlan();
  Outcome Send(const Plan& plan);
  void Judge(const Plan& plan, const Outcome& outcome);

  const std::unique_ptr<v1::Generation::Stub> stub_;
  const TableModel& table_;
  Tally& tally_;
  std::mt19937_64 random_;
};

}  // namespace tandem::testing
