#include "client/common/connection.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/common/command_line.h"
#include "client/common/orchestrator_channel.h"
#include "client/common/port_probe.h"
#include "common/base/status_macros.h"
#include "common/concurrency/mutex.h"
#include "common/process/exit_codes.h"
#include "common/security/bearer_tokens.h"
#include "common/security/handshake_hint.h"

namespace tandem::client {
namespace {

// The request that a signal cancels. A process has one at a time.
class Cancellation {
 public:
  void Configure(SignalsEnd end) {
    concurrency::MutexLock lock(mutex_);
    end_ = end;
  }
  void Begin(grpc::ClientContext* context) {
    concurrency::MutexLock lock(mutex_);
    if (end_ == SignalsEnd::kRequest) cancelled_ = false;
    context_ = context;
    if (cancelled_) context_->TryCancel();
  }
  void End() {
    concurrency::MutexLock lock(mutex_);
    context_ = nullptr;
  }
  // False: there is nothing left to cancel, so the process shall end.
  bool Cancel() {
    concurrency::MutexLock lock(mutex_);
    if (cancelled_ || (end_ == SignalsEnd::kRequest && context_ == nullptr)) return false;
    cancelled_ = true;
    if (context_ != nullptr) context_->TryCancel();
    return true;
  }
  bool cancelled() {
    concurrency::MutexLock lock(mutex_);
    return cancelled_;
  }

 private:
  concurrency::Mutex mutex_;
  SignalsEnd end_ TANDEM_GUARDED_BY(mutex_) = SignalsEnd::kCommand;
  grpc::ClientContext* context_ TANDEM_GUARDED_BY(mutex_) = nullptr;
  bool cancelled_ TANDEM_GUARDED_BY(mutex_) = false;
};

// Never destroyed: the signal thread may use it until the process ends.
Cancellation& TheCancellation() {
  static Cancellation& cancellation = *new Cancellation;
  return cancellation;
}

absl::Status ToAbsl(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
    return absl::UnimplementedError(
        "the port serves gRPC, but not tandem.v1.Generation: take the port of an orchestrator's "
        "--listen, not that of --admin-listen, of a target or of a draft");
  }
  // gRPC's own status for a message above its limit means "try again" everywhere else.
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
      absl::StrContains(status.error_message(), "message larger than max")) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request is too large: ", status.error_message()));
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// gRPC does not tell a plaintext client that a port speaks TLS: the connection just ends.
constexpr char kMayBeTls[] =
    "somebody listens there, and does not answer in plaintext: the port may speak TLS; then give "
    "--tls-ca=FILE";

// What gRPC says of a channel that does not connect: the state alone has no reason. Empty: it does.
std::string WhyNot(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  v1::DescribeReply reply;
  const grpc::Status status =
      v1::Generation::NewStub(channel)->Describe(&context, v1::DescribeRequest(), &reply);
  return status.ok() ? "" : status.error_message();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& address,
                                                       const transport::ChannelSecurity& security,
                                                       bool encrypted, absl::Duration patience) {
  std::shared_ptr<grpc::Channel> channel = OrchestratorChannel(address, security);
  const auto deadline = std::chrono::system_clock::now() + absl::ToChronoMilliseconds(patience);
  bool in_time = true;
  while (true) {
    grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return channel;
    if (!in_time || state == GRPC_CHANNEL_TRANSIENT_FAILURE) {
      const std::string reason = WhyNot(channel);
      std::string hint(security::HandshakeHint(reason));
      if (hint.empty()) {
        hint = !encrypted && SomebodyListens(address)
                   ? std::string(kMayBeTls)
                   : absl::StrCat(
                         "start one with `tandem serve --target-model=DIR --listen=", address, "`");
      }
      return absl::UnavailableError(absl::StrCat(
          "no orchestrator answers at ", address, reason.empty() ? "" : "\n  reason: ", reason,
          "\n  hint: ", hint, ", or name another with --orchestrator=HOST:PORT"));
    }
    in_time = channel->WaitForStateChange(state, deadline);
  }
}

absl::StatusOr<transport::ChannelSecurity> SecurityOf(const OrchestratorFlags& flags) {
  TANDEM_ASSIGN_OR_RETURN(const std::string file, flags.TokenFile());
  TANDEM_ASSIGN_OR_RETURN(transport::ChannelSecurity security,
                          transport::MakeChannelSecurity(flags.tls, file));
  if (file.empty() && !flags.token.empty()) {
    TANDEM_ASSIGN_OR_RETURN(security.token, security::ClientToken::Of("TANDEM_TOKEN", flags.token));
  }
  return security;
}

std::shared_ptr<grpc::Channel> ConnectTo(const OrchestratorFlags& flags, int& exit_code) {
  const absl::StatusOr<transport::ChannelSecurity> security = SecurityOf(flags);
  if (!security.ok()) {
    PrintError(security.status());
    exit_code = process::kExitUsage;
    return nullptr;
  }
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
      Connect(flags.address, *security, flags.tls.enabled());
  if (!channel.ok()) {
    PrintError(channel.status());
    exit_code = process::kExitFailure;
    return nullptr;
  }
  return *std::move(channel);
}

absl::Status Generate(v1::Generation::StubInterface& stub, const v1::GenerateRequest& request,
                      const CallOptions& options, Outcome& outcome,
                      const std::function<void(const v1::GenerateReply&)>& on_reply) {
  grpc::ClientContext context;
  if (options.timeout > absl::ZeroDuration()) {
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMilliseconds(options.timeout));
  }
  if (!options.traceparent.empty()) context.AddMetadata("traceparent", options.traceparent);
  const uint32_t samples = std::max(1u, request.samples());
  TheCancellation().Begin(&context);
  auto reader = stub.Generate(&context, request);
  absl::Status sense;
  bool complete = false;
  v1::GenerateReply reply;
  while (reader->Read(&reply)) {
    if (!sense.ok()) continue;
    sense = Collect(reply, samples, outcome);
    if (sense.ok()) {
      on_reply(reply);
    } else {
      context.TryCancel();
    }
    complete = complete || reply.has_last();
  }
  const grpc::Status status = reader->Finish();
  TheCancellation().End();
  if (!sense.ok()) return sense;
  if (!status.ok()) return ToAbsl(status);
  if (!complete) return absl::InternalError("the stream ended without its last message");
  return absl::OkStatus();
}

void CancelRequestsOnSignals(SignalsEnd end) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  TheCancellation().Configure(end);
  std::thread([signals] {
    int signal_number = 0;
    do {
      sigwait(&signals, &signal_number);
    } while (TheCancellation().Cancel());
    _exit(128 + signal_number);
  }).detach();
}

bool WasCancelled() { return TheCancellation().cancelled(); }

}  // namespace tandem::client
