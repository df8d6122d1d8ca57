// Byte streams for tests and benchmarks of the transport: a generic service that echoes, and a
// client that measures one round trip at a time. No IdleGuard is started here.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/concurrency/mutex.h"
#include "common/transport/client_stream.h"
#include "common/transport/server_stream.h"

namespace tandem::transport {

using Bytes = grpc::ByteBuffer;
using BytesClientReactor = grpc::ClientBidiReactor<Bytes, Bytes>;

inline Bytes ToBytes(const std::string& text) {
  const grpc::Slice slice(text);
  return Bytes(&slice, 1);
}

inline std::string ToText(const Bytes& bytes) {
  std::vector<grpc::Slice> slices;
  if (!bytes.Dump(&slices).ok()) return "(not readable)";
  std::string text;
  for (const auto& slice : slices) text.append(slice.begin(), slice.end());
  return text;
}

// Calls any method of a generic service.
inline CallStarter<Bytes, Bytes> CallOf(grpc::GenericStub& stub) {
  return [&stub](grpc::ClientContext* context, BytesClientReactor* reactor) {
    stub.PrepareBidiStreamingCall(context, "/test.Bytes/Talk", {}, reactor);
  };
}

// Sends each message back.
class EchoHandler final : public StreamHandler<Bytes> {
 public:
  explicit EchoHandler(std::shared_ptr<Sink<Bytes>> sink) : sink_(std::move(sink)) {}
  void OnMessage(Bytes message) override { sink_->Send(std::move(message)); }
  void OnHalfClose() override { sink_->Close(absl::OkStatus()); }
  void OnDone(absl::Status) override {}

 private:
  const std::shared_ptr<Sink<Bytes>> sink_;
};

class PlainEchoService final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    return ServeBidi<Bytes, Bytes>(context, {}, [](std::shared_ptr<Sink<Bytes>> sink) {
      return std::make_unique<EchoHandler>(std::move(sink));
    });
  }
};

// Serves on a free port of the loopback interface.
class EchoServer {
 public:
  EchoServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~EchoServer() { server_->Shutdown(std::chrono::system_clock::now()); }
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;

  int port() const { return port_; }

 private:
  int port_ = 0;
  PlainEchoService service_;
  std::unique_ptr<grpc::Server> server_;
};

// One stream to an echo server; one message at a time.
class PingClient {
 public:
  explicit PingClient(int port, const std::string& host = "127.0.0.1")
      : stub_(grpc::CreateChannel(host + ":" + std::to_string(port),
                                  grpc::InsecureChannelCredentials())) {
    sink_ = OpenBidi<Bytes, Bytes>(CallOf(stub_), {}, std::make_unique<Handler>(*this));
  }
  ~PingClient() {
    sink_->Close(absl::CancelledError("enough"));
    concurrency::MutexLock lock(mutex_);
    while (!over_) changed_.Wait(mutex_);
  }
  PingClient(const PingClient&) = delete;
  PingClient& operator=(const PingClient&) = delete;

  // Sends `message` and waits for its echo; false when the stream is over.
  bool RoundTrip(const Bytes& message) {
    if (!sink_->Send(message)) return false;
    concurrency::MutexLock lock(mutex_);
    while (!answered_ && !over_) changed_.Wait(mutex_);
    answered_ = false;
    return !over_;
  }

  // In milliseconds.
  double TimedRoundTrip(const Bytes& message) {
    const auto start = std::chrono::steady_clock::now();
    const bool answered = RoundTrip(message);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    return answered ? took.count() : -1;
  }

 private:
  class Handler final : public StreamHandler<Bytes> {
   public:
    explicit Handler(PingClient& client) : client_(client) {}
    void OnMessage(Bytes) override { client_.Note(client_.answered_); }
    void OnDone(absl::Status) override { client_.Note(client_.over_); }

   private:
    PingClient& client_;
  };

  void Note(bool& what) {
    concurrency::MutexLock lock(mutex_);
    what = true;
    changed_.NotifyAll();  // under the lock: this may be gone right after it
  }

  grpc::GenericStub stub_;
  concurrency::Mutex mutex_;
  concurrency::CondVar changed_;
  bool answered_ = false;
  bool over_ = false;
  std::shared_ptr<Sink<Bytes>> sink_;
};

}  // namespace tandem::transport
