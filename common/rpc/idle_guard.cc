#include "common/rpc/idle_guard.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <thread>
#include <utility>

#include "common/concurrency/mutex.h"
#include "common/config/check.h"
#include "common/rpc/client_stream.h"
#include "common/rpc/server_stream.h"

namespace tandem::rpc {
namespace {

using Bytes = grpc::ByteBuffer;
constexpr absl::Duration kInterval = absl::Milliseconds(300);

// Answers each message with itself.
class Echo final : public StreamHandler<Bytes> {
 public:
  explicit Echo(std::shared_ptr<Sink<Bytes>> sink) : sink_(std::move(sink)) {}
  void OnMessage(Bytes message) override { sink_->Send(std::move(message)); }
  void OnHalfClose() override { sink_->Close(absl::OkStatus()); }
  void OnDone(absl::Status) override {}

 private:
  const std::shared_ptr<Sink<Bytes>> sink_;
};

class EchoService final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return ServeBidi<Bytes, Bytes>(context, {}, [](std::shared_ptr<Sink<Bytes>> sink) {
      return std::make_unique<Echo>(std::move(sink));
    });
  }
};

class Ignore final : public StreamHandler<Bytes> {
 public:
  void OnMessage(Bytes) override {}
  void OnDone(absl::Status) override {}
};

}  // namespace

struct IdleGuard::Impl {
  EchoService service;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<grpc::GenericStub> stub;
  concurrency::Mutex mutex;
  concurrency::CondVar changed;
  bool stopping TANDEM_GUARDED_BY(mutex) = false;
  std::thread beat;

  void Beat() {
    const auto sink = OpenBidi<Bytes, Bytes>(
        [this](grpc::ClientContext* context, grpc::ClientBidiReactor<Bytes, Bytes>* reactor) {
          stub->PrepareBidiStreamingCall(context, "/tandem.IdleGuard/Beat", {}, reactor);
        },
        {}, std::make_unique<Ignore>());
    const grpc::Slice byte("b", 1);
    concurrency::MutexLock lock(mutex);
    while (!stopping) {
      lock.Unlock();
      sink->Send(Bytes(&byte, 1));
      lock.Lock();
      if (!stopping) changed.WaitFor(mutex, kInterval);
    }
    lock.Unlock();
    sink->Close(absl::OkStatus());
  }
};

IdleGuard::IdleGuard() : impl_(std::make_unique<Impl>()) {
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&impl_->service);
  impl_->server = builder.BuildAndStart();
  TANDEM_CHECK(impl_->server != nullptr) << "gRPC refuses to start a server inside the process";
  impl_->stub = std::make_unique<grpc::GenericStub>(impl_->server->InProcessChannel({}));
  impl_->beat = std::thread([impl = impl_.get()] { impl->Beat(); });
}

IdleGuard::~IdleGuard() {
  {
    concurrency::MutexLock lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->changed.NotifyAll();
  impl_->beat.join();
  impl_->stub.reset();
  impl_->server->Shutdown();
}

std::shared_ptr<IdleGuard> IdleGuard::Get() {
  // Never destroyed: see the header.
  static auto* const guard = new std::shared_ptr<IdleGuard>(new IdleGuard());
  return *guard;
}

}  // namespace tandem::rpc
