// One request to an orchestrator, from the first connection to the last message.
#pragma once

#include <cstdint>
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

// Returns a connected channel. `encrypted`: whether `security` is TLS. UNAVAILABLE names the
// address and says what to do. It is returned after the first failed attempt to connect, or after
// `patience`. The message says so when a certificate is wrong, and when a port that was asked in
// plaintext may speak TLS.
absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& address,
                                                       const transport::ChannelSecurity& security,
                                                       bool encrypted,
                                                       absl::Duration patience = absl::Seconds(5));

// The certificates and the token that the flags name. Errors as transport::MakeChannelSecurity.
absl::StatusOr<transport::ChannelSecurity> SecurityOf(const OrchestratorFlags& flags);

// Connects to the orchestrator that the flags name, with their certificates and token. If that
// fails, the error is printed to standard error, null is returned, and `exit_code` is the process's
// exit code: kExitUsage if a file cannot be used, kExitFailure if nobody answers.
std::shared_ptr<grpc::Channel> ConnectTo(const OrchestratorFlags& flags, int& exit_code);

// The options of one call.
struct CallOptions {
  absl::Duration timeout = absl::ZeroDuration();  // 0 = unlimited
  std::string traceparent;                        // metadata of this name; empty: none
};

// Sends `request` and blocks until it ends. `outcome` collects the replies, those before a failure
// included. `on_reply` sees each reply after it was collected. CANCELLED follows a signal; INTERNAL
// means that a reply makes no sense.
absl::Status Generate(v1::Generation::StubInterface& stub, const v1::GenerateRequest& request,
                      const CallOptions& options, Outcome& outcome,
                      const std::function<void(const v1::GenerateReply&)>& on_reply);

// What the first SIGINT or SIGTERM ends.
enum class SignalsEnd : uint8_t {
  kCommand,  // the running request, and each that begins later
  kRequest,  // the running request alone; the process, if none runs
};

// After this call a signal cancels the running request instead of ending the process. A second one
// ends the process. Call it once, before any other thread starts, because it blocks the signals in
// all threads.
void CancelRequestsOnSignals(SignalsEnd end = SignalsEnd::kCommand);

// Whether a signal has come; with kRequest: since the last request began.
bool WasCancelled();

}  // namespace tandem::client
