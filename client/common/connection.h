// One request to an orchestrator, from the first connection to the last message.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/common/orchestrator_flags.h"
#include "client/common/outcome.h"
#include "common/transport/channel.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace grpc {
class Channel;
}

namespace tandem::client {

// A channel that is connected. UNAVAILABLE names the address and what to do about it; it comes with
// the first failure to connect, or after `patience`. Errors of a wrong certificate say so.
absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(
    const std::string& address, const transport::ChannelSecurity& security = {},
    absl::Duration patience = absl::Seconds(5));

// Connects to the orchestrator that the flags name, with their certificates and token. Null when
// that failed: the error is on standard error then, and `exit_code` is what the process ends with,
// kExitUsage for files that do not serve and kExitFailure when nobody answers.
std::shared_ptr<grpc::Channel> ConnectTo(const OrchestratorFlags& flags, int& exit_code);

// How a request is sent.
struct CallOptions {
  absl::Duration timeout = absl::ZeroDuration();  // 0 = unlimited
  std::string traceparent;                        // metadata of this name; empty: none
};

// Sends `request` and blocks until its end. `outcome` gets what came, also before a failure;
// `on_reply` sees each message after it is in there. CANCELLED after a signal; INTERNAL when the
// service sends what makes no sense.
absl::Status Generate(v1::Generation::StubInterface& stub, const v1::GenerateRequest& request,
                      const CallOptions& options, Outcome& outcome,
                      const std::function<void(const v1::GenerateReply&)>& on_reply);

// From now on SIGINT and SIGTERM cancel the running request instead of ending the process; a second
// one ends it. Call once, before any other thread starts (the signals are blocked in all of them).
void CancelRequestsOnSignals();

// Whether a signal came.
bool WasCancelled();

}  // namespace tandem::client
