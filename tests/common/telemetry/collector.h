// A collector of spans: OTLP over gRPC, of which it reads no more than which texts are in it.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/concurrency/mutex.h"
#include "tests/common/transport/echo.h"

namespace tandem::testing {

// Thread-safe.
class Collector {
 public:
  // Port 0: any free one.
  explicit Collector(int port = 0) : service_(*this) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~Collector() { server_->Shutdown(std::chrono::system_clock::now()); }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  int port() const { return port_; }

  // Whether an export had this text in it, e.g. a span's name.
  bool Got(absl::string_view text) const {
    concurrency::MutexLock lock(mutex_);
    return received_.find(std::string(text)) != std::string::npos;
  }
  // The last export's; empty when it had none of that name.
  std::string Header(const std::string& name) const {
    concurrency::MutexLock lock(mutex_);
    const auto it = headers_.find(name);
    return it == headers_.end() ? "" : it->second;
  }

 private:
  class Exports final : public transport::StreamHandler<transport::Bytes> {
   public:
    Exports(Collector& collector, std::shared_ptr<transport::Sink<transport::Bytes>> sink)
        : collector_(collector), sink_(std::move(sink)) {}
    void OnMessage(transport::Bytes message) override {
      {
        concurrency::MutexLock lock(collector_.mutex_);
        collector_.received_ += transport::ToText(message);
      }
      sink_->Send(transport::ToBytes(""));  // an ExportTraceServiceResponse: all is well
      sink_->Close(absl::OkStatus());
    }
    void OnDone(absl::Status) override {}

   private:
    Collector& collector_;
    const std::shared_ptr<transport::Sink<transport::Bytes>> sink_;
  };

  class Service final : public grpc::CallbackGenericService {
   public:
    explicit Service(Collector& collector) : collector_(collector) {}
    grpc::ServerGenericBidiReactor* CreateReactor(
        grpc::GenericCallbackServerContext* context) override {
      {
        concurrency::MutexLock lock(collector_.mutex_);
        collector_.headers_.clear();
        collector_.headers_[":path"] = context->method();
        for (const auto& [name, value] : context->client_metadata()) {
          collector_.headers_[std::string(name.data(), name.size())] =
              std::string(value.data(), value.size());
        }
      }
      return transport::ServeBidi<transport::Bytes, transport::Bytes>(
          context, {}, [this](std::shared_ptr<transport::Sink<transport::Bytes>> sink) {
            return std::make_unique<Exports>(collector_, std::move(sink));
          });
    }

   private:
    Collector& collector_;
  };

  mutable concurrency::Mutex mutex_;
  std::string received_ TANDEM_GUARDED_BY(mutex_);
  std::map<std::string, std::string> headers_ TANDEM_GUARDED_BY(mutex_);
  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tandem::testing
