// Puts a service under load: it keeps a given number of requests running and records how each went.
//
//   LoadSource source(channels);
//   LoadRun run = source.Run(plan);
//
// A run has five parts:
//
// - Fill: the first requests start at the same time. This part ends when each has written twice: by
//   then its prompt was read by all who read it.
// - Window: tokens are counted, and every request that starts here becomes a record. The window
//   lasts as long as the plan says.
// - Tail: ended requests are still replaced, so that the load stays the same, until the last
//   request of the window has ended. So tokens are counted here, too: with many requests at once
//   the tail may be as long as the window.
// - Over: the target's device is asked how it was used, as before the window. Nothing counts.
// - Cut: what still runs is cancelled. It counts neither as a failure nor as a record.
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
  absl::Duration window;   // the least length of the window
  uint64_t min_ended = 1;  // the window goes on until so many requests ended well;
                           // if some fail, it ends after three times `window`
  // Makes the `index`-th request of the run, from 0. Called on several threads.
  std::function<v1::GenerateRequest(uint64_t index)> request;
  // Polled during the run. Once it returns true, the run is cut and its records are incomplete.
  std::function<bool()> cancelled;
};

// Output tokens of the `index`-th request of a run with `concurrency` requests at once. The first
// requests write between 2 and `max_tokens` tokens, spread evenly, so that they are where the
// requests of a service are that has been running for long: anywhere in their texts. All others
// write `max_tokens`. If all began at the same time with as many tokens, texts that are written
// without a draft would share their passes to the end, and so would the prompts of the next ones.
// Any draft ends that, and no service sees it.
uint32_t StaggeredTokens(uint64_t index, uint32_t concurrency, uint32_t max_tokens);

// Thread-compatible: only one Run may be active.
class LoadSource {
 public:
  // Opens one channel for each 64 concurrent requests, at most 16 channels, and waits up to 5 s
  // until they are connected. Requests on a channel that is not connected fail with UNAVAILABLE,
  // and the run reports that.
  LoadSource(const std::string& address, uint32_t max_concurrency,
             const transport::ChannelSecurity& security = {});
  ~LoadSource();

  // Blocks until the run is over and no call of it is left. A failed request is counted by its
  // status and replaced at most 20 ms later. The delay keeps a service that refuses everything from
  // a storm of requests.
  LoadRun Run(const LoadPlan& plan);

 private:
  class Running;
  const std::shared_ptr<transport::IdleGuard> guard_ = transport::IdleGuard::Get();
  std::vector<std::unique_ptr<v1::Generation::Stub>> stubs_;
};

// The work of all targets' devices since they started, as the orchestrator's Describe last heard of
// it. Returns nullopt when Describe does not report it.
std::optional<DeviceUse> AskDeviceUse(v1::Generation::StubInterface& stub);

}  // namespace tandem::client
