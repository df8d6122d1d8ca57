#include "client/connection.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/concurrency/mutex.h"

namespace tandem::client {
namespace {

// The request that a signal cancels. A process has one at a time.
class Cancellation {
 public:
  void Begin(grpc::ClientContext* context) {
    concurrency::MutexLock lock(mutex_);
    context_ = context;
    if (cancelled_) context_->TryCancel();
  }
  void End() {
    concurrency::MutexLock lock(mutex_);
    context_ = nullptr;
  }
  void Cancel() {
    concurrency::MutexLock lock(mutex_);
    cancelled_ = true;
    if (context_ != nullptr) context_->TryCancel();
  }
  bool cancelled() {
    concurrency::MutexLock lock(mutex_);
    return cancelled_;
  }

 private:
  concurrency::Mutex mutex_;
  grpc::ClientContext* context_ TANDEM_GUARDED_BY(mutex_) = nullptr;
  bool cancelled_ TANDEM_GUARDED_BY(mutex_) = false;
};

// Never destroyed: the signal thread may use it until the process ends.
Cancellation& TheCancellation() {
  static Cancellation& cancellation = *new Cancellation;
  return cancellation;
}

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& address,
                                                       absl::Duration patience) {
  grpc::ChannelArguments arguments;
  // The address is a service of one's own; a web proxy in the environment is not meant for it.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  const auto deadline = std::chrono::system_clock::now() + absl::ToChronoMilliseconds(patience);
  bool in_time = true;
  while (true) {
    grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return channel;
    if (!in_time || state == GRPC_CHANNEL_TRANSIENT_FAILURE) {
      return absl::UnavailableError(absl::StrCat(
          "no orchestrator answers at ", address,
          "\n  hint: start one with `tandem serve --target-model=DIR --listen=", address,
          "`, or name another with --orchestrator=HOST:PORT"));
    }
    in_time = channel->WaitForStateChange(state, deadline);
  }
}

absl::StatusOr<Outcome> Generate(v1::Generation::StubInterface& stub,
                                 const v1::GenerateRequest& request, absl::Duration timeout,
                                 const std::function<void(const v1::Delta&)>& on_delta) {
  grpc::ClientContext context;
  if (timeout > absl::ZeroDuration()) {
    context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(timeout));
  }
  TheCancellation().Begin(&context);
  auto reader = stub.Generate(&context, request);
  Outcome outcome;
  bool complete = false;
  v1::GenerateReply reply;
  while (reader->Read(&reply)) {
    switch (reply.kind_case()) {
      case v1::GenerateReply::kStarted:
        outcome.started = std::move(*reply.mutable_started());
        break;
      case v1::GenerateReply::kDelta:
        outcome.text += reply.delta().text();
        outcome.token_ids.insert(outcome.token_ids.end(), reply.delta().token_ids().begin(),
                                 reply.delta().token_ids().end());
        on_delta(reply.delta());
        break;
      case v1::GenerateReply::kLast:
        outcome.last = std::move(*reply.mutable_last());
        complete = true;
        break;
      case v1::GenerateReply::kPromptLogprobs:
      case v1::GenerateReply::KIND_NOT_SET:
        break;  // of a newer service; it is for those who know it
    }
  }
  grpc::Status status = reader->Finish();
  TheCancellation().End();
  if (!status.ok()) return ToAbsl(status);
  if (!complete) return absl::InternalError("the stream ended without its last message");
  return outcome;
}

void CancelRequestsOnSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  TheCancellation();
  std::thread([signals] {
    int signal_number = 0;
    sigwait(&signals, &signal_number);
    TheCancellation().Cancel();
    sigwait(&signals, &signal_number);
    _exit(128 + signal_number);
  }).detach();
}

bool WasCancelled() { return TheCancellation().cancelled(); }

}  // namespace tandem::client
