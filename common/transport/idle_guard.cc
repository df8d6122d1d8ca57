#include "common/transport/idle_guard.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <pthread.h>

#include <cstdlib>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/concurrency/mutex.h"
#include "common/transport/client_stream.h"
#include "common/transport/server_stream.h"

namespace tandem::transport {
namespace {

using Bytes = grpc::ByteBuffer;
constexpr absl::Duration kInterval = absl::Milliseconds(300);

// Answers each message with itself.
class Echo final : public StreamHandler<Bytes> {
 public:
  explicit Echo(std::shared_ptr<Sink<Bytes>> sink) : sink_(std::move(sink)) {}
  void OnMessage(Bytes message) override { sink_->Send(message); }
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
  std::shared_ptr<Sink<Bytes>> sink;
  concurrency::Mutex mutex;
  concurrency::CondVar changed;
  bool stopping TANDEM_GUARDED_BY(mutex) = false;
  std::thread beat;

  void Beat() {
    const grpc::Slice byte("b", 1);
    concurrency::MutexLock lock(mutex);
    while (!stopping) {
      lock.Unlock();
      sink->Send(Bytes(&byte, 1));
      lock.Lock();
      if (!stopping) changed.WaitFor(mutex, kInterval);
    }
  }

  void Stop() {
    {
      concurrency::MutexLock lock(mutex);
      stopping = true;
    }
    changed.NotifyAll();
    if (beat.joinable()) beat.join();
  }
};

IdleGuard::IdleGuard() : impl_(std::make_unique<Impl>()) {
  grpc::ServerBuilder builder;
  builder.RegisterCallbackGenericService(&impl_->service);
  impl_->server = builder.BuildAndStart();
  TANDEM_CHECK(impl_->server != nullptr) << "gRPC refuses to start a server inside the process";
  impl_->stub = std::make_unique<grpc::GenericStub>(impl_->server->InProcessChannel({}));
  impl_->sink = OpenBidi<Bytes, Bytes>(
      [stub = impl_->stub.get()](grpc::ClientContext* context,
                                 grpc::ClientBidiReactor<Bytes, Bytes>* reactor) {
        stub->PrepareBidiStreamingCall(context, "/tandem.IdleGuard/Beat", {}, reactor);
      },
      {}, std::make_unique<Ignore>());
  impl_->beat = std::thread([impl = impl_.get()] { impl->Beat(); });
  pthread_setname_np(impl_->beat.native_handle(), "idle-guard");
}

IdleGuard::~IdleGuard() {
  impl_->Stop();
  impl_->sink->Close(absl::OkStatus());
  impl_->stub.reset();
  impl_->server->Shutdown();
}

std::shared_ptr<IdleGuard> IdleGuard::Get() {
  // Never destroyed, as the header says; only its thread ends, before the statics that gRPC rests
  // on.
  static auto* const guard = [] {
    auto* made = new std::shared_ptr<IdleGuard>(new IdleGuard());
    std::atexit([] { Get()->impl_->Stop(); });
    return made;
  }();
  return *guard;
}

}  // namespace tandem::transport
