// A call of Generate that a test holds in its hand: it reads or does not, and is cancelled in
// mid-stream.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

#include "absl/time/time.h"
#include "common/concurrency/mutex.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/integration/requests.h"

namespace grpc {
class Channel;
}

namespace tandem::testing {

struct HeldCallOptions {
  static constexpr uint32_t kAll = std::numeric_limits<uint32_t>::max();

  uint32_t read_first = kAll;           // messages; then no more until ReadOn
  uint32_t cancel_after_deltas = kAll;  // as soon as so many came
  absl::Duration timeout = absl::InfiniteDuration();
  std::function<void()> on_started;  // on gRPC's thread
};

// Thread-safe. Begins when made; cancelled and waited for when destroyed.
class HeldCall {
 public:
  HeldCall(const std::shared_ptr<grpc::Channel>& channel, v1::GenerateRequest request,
           HeldCallOptions options = {});
  ~HeldCall();

  bool started() const;
  bool done() const;
  void ReadOn();
  void Cancel();
  const Reply& Wait();  // until the call is over; reads what was not read

 private:
  class Reactor;

  mutable concurrency::Mutex mutex_;
  concurrency::CondVar changed_;
  bool started_ TANDEM_GUARDED_BY(mutex_) = false;
  bool done_ TANDEM_GUARDED_BY(mutex_) = false;
  Reply reply_;  // the reactor's until done_

  const std::unique_ptr<v1::Generation::Stub> stub_;
  const v1::GenerateRequest request_;
  const HeldCallOptions options_;
  std::unique_ptr<Reactor> reactor_;
};

// A connection of its own, whose peer may send only so many bytes per stream that nobody reads.
std::shared_ptr<grpc::Channel> NarrowChannel(int port, int window_bytes);

}  // namespace tandem::testing
