// Many requests at once: keeps so many running, and records how each went.
//
//   LoadSource source(channels);
//   LoadRun run = source.Run(plan);
//
// A run has four parts. While it fills, the first requests start, all at once, until each has its
// first token. In the window tokens are counted, and every request that starts is one of the
// records; the window lasts as long as the plan says. Then requests go on being replaced, so that
// the load stays what it was, until the last of the window's requests has ended. What still runs
// then is cut: by us, so it is no failure and no record.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/bench/records.h"
#include "common/transport/channel.h"
#include "common/transport/idle_guard.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace tandem::client {

struct LoadPlan {
  uint32_t concurrency = 1;
  absl::Duration window;   // at least so long …
  uint64_t min_ended = 1;  // … and until so many requests ended well in it; where some
                           // fail, for three times the window at most
  // The `index`-th request of the run, from 0. Called from several threads.
  std::function<v1::GenerateRequest(uint64_t index)> request;
  // Asked all the time; once true, the run is cut. Its records are incomplete then.
  std::function<bool()> cancelled;
};

// Thread-compatible: one Run at a time.
class LoadSource {
 public:
  // One channel for each 64 requests at once, at most 16. Waits up to 5 s for their connections;
  // requests to nobody fail with UNAVAILABLE, which is what their run says.
  LoadSource(const std::string& address, uint32_t max_concurrency,
             const transport::ChannelSecurity& security = {});
  ~LoadSource();

  // Blocks until the run is over and no call of it is left. A request that fails is counted by its
  // status and replaced 20 ms later at most, so that a service that refuses everything is not
  // stormed.
  LoadRun Run(const LoadPlan& plan);

 private:
  class Running;
  const std::shared_ptr<transport::IdleGuard> guard_ = transport::IdleGuard::Get();
  std::vector<std::unique_ptr<v1::Generation::Stub>> stubs_;
};

// What the targets' devices did since they started, all together, as the orchestrator's Describe
// last heard of it; nullopt when it does not say.
std::optional<DeviceUse> AskDeviceUse(v1::Generation::StubInterface& stub);

}  // namespace tandem::client
