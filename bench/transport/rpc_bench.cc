// The transport by itself, over TCP on the loopback interface:
//   a round trip by message size, our callback streams against gRPC's synchronous ones, measured in
//   turn;
//   the first message after idling, with and without the idle guard (each in a process of its own);
//   what the search for unknown fields costs.
// Prints a table; no arguments.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/messages/unknown_fields.h"
#include "common/transport/idle_guard.h"
#include "tandem/internal/v1/target.grpc.pb.h"
#include "tests/common/transport/echo.h"

namespace tandem::transport {
namespace {

using Clock = std::chrono::steady_clock;
using Micros = std::chrono::duration<double, std::micro>;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string Spread(std::vector<double> values, const char* format) {
  std::sort(values.begin(), values.end());
  char text[100];
  std::snprintf(text, sizeof text, format, values.front(), values[values.size() / 2],
                values.back());
  return text;
}

internal::v1::TargetReply Answer(const internal::v1::TargetRequest& request) {
  internal::v1::TargetReply reply;
  reply.mutable_welcome()->set_instance_id(request.hello().client_id());
  return reply;
}

class SyncService final : public internal::v1::Target::Service {
  grpc::Status Verify(grpc::ServerContext*,
                      grpc::ServerReaderWriter<internal::v1::TargetReply,
                                               internal::v1::TargetRequest>* stream) override {
    internal::v1::TargetRequest request;
    while (stream->Read(&request)) stream->Write(Answer(request));
    return grpc::Status::OK;
  }
};

class AnswerHandler final : public StreamHandler<internal::v1::TargetRequest> {
 public:
  explicit AnswerHandler(std::shared_ptr<Sink<internal::v1::TargetReply>> sink)
      : sink_(std::move(sink)) {}
  void OnMessage(internal::v1::TargetRequest request) override { sink_->Send(Answer(request)); }
  void OnHalfClose() override { sink_->Close(absl::OkStatus()); }
  void OnDone(absl::Status) override {}

 private:
  const std::shared_ptr<Sink<internal::v1::TargetReply>> sink_;
};

class CallbackService final : public internal::v1::Target::CallbackService {
  grpc::ServerBidiReactor<internal::v1::TargetRequest, internal::v1::TargetReply>* Verify(
      grpc::CallbackServerContext* context) override {
    return ServeBidi<internal::v1::TargetRequest, internal::v1::TargetReply>(
        context, {}, [](std::shared_ptr<Sink<internal::v1::TargetReply>> sink) {
          return std::make_unique<AnswerHandler>(std::move(sink));
        });
  }
};

struct Server {
  explicit Server(grpc::Service& service) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
    stub = internal::v1::Target::NewStub(grpc::CreateChannel("127.0.0.1:" + std::to_string(port),
                                                             grpc::InsecureChannelCredentials()));
  }
  ~Server() { server->Shutdown(std::chrono::system_clock::now()); }
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<internal::v1::Target::Stub> stub;
};

class CallbackClient {
 public:
  explicit CallbackClient(internal::v1::Target::Stub& stub) {
    sink_ = OpenBidi<internal::v1::TargetRequest, internal::v1::TargetReply>(
        [&stub](auto* context, auto* reactor) { stub.async()->Verify(context, reactor); }, {},
        std::make_unique<Handler>(*this));
  }
  ~CallbackClient() {
    sink_->Close(absl::OkStatus());
    Wait(over_);
  }
  void RoundTrip(const internal::v1::TargetRequest& request) {
    sink_->Send(request);
    Wait(answered_);
  }

 private:
  class Handler final : public StreamHandler<internal::v1::TargetReply> {
   public:
    explicit Handler(CallbackClient& client) : client_(client) {}
    void OnMessage(internal::v1::TargetReply) override { client_.Note(client_.answered_); }
    void OnDone(absl::Status) override { client_.Note(client_.over_); }

   private:
    CallbackClient& client_;
  };

  void Note(bool& what) {
    concurrency::MutexLock lock(mutex_);
    what = true;
    changed_.NotifyAll();
  }
  void Wait(bool& what) {
    concurrency::MutexLock lock(mutex_);
    while (!what) changed_.Wait(mutex_);
    what = false;
  }

  concurrency::Mutex mutex_;
  concurrency::CondVar changed_;
  bool answered_ = false;
  bool over_ = false;
  std::shared_ptr<Sink<internal::v1::TargetRequest>> sink_;
};

// The median of `times` calls, in microseconds.
double Time(int times, const std::function<void()>& call) {
  std::vector<double> micros;
  for (int i = 0; i < times; ++i) {
    const auto start = Clock::now();
    call();
    micros.push_back(Micros(Clock::now() - start).count());
  }
  return Median(std::move(micros));
}

void RoundTrips() {
  constexpr int kTurns = 11;
  constexpr int kTimes = 300;  // a turn and kind
  SyncService sync_service;
  CallbackService callback_service;
  const Server sync_server(sync_service), callback_server(callback_service);
  grpc::ClientContext context;
  const auto sync = sync_server.stub->Verify(&context);
  CallbackClient callback(*callback_server.stub);

  std::printf(
      "round trip, us            callback p50 min/med/max      synchronous p50 min/med/max   "
      "callback / synchronous, in turn\n");
  for (const int bytes : {64, 4096, 65536}) {
    internal::v1::TargetRequest request;
    request.mutable_hello()->set_client_id(std::string(bytes, 'x'));
    internal::v1::TargetReply reply;
    const auto call_sync = [&] {
      sync->Write(request);
      sync->Read(&reply);
    };
    const auto call_callback = [&] { callback.RoundTrip(request); };
    Time(kTimes, call_sync);
    Time(kTimes, call_callback);
    std::vector<double> by_callback, by_sync, ratios;
    for (int turn = 0; turn < kTurns; ++turn) {
      by_callback.push_back(Time(kTimes, call_callback));
      by_sync.push_back(Time(kTimes, call_sync));
      ratios.push_back(by_callback.back() / by_sync.back());
    }
    std::printf("  %6d bytes            %s    %s    %s\n", bytes,
                Spread(by_callback, "%7.1f %7.1f %7.1f ").c_str(),
                Spread(by_sync, "%7.1f %7.1f %7.1f ").c_str(),
                Spread(ratios, "%5.2f %5.2f %5.2f").c_str());
  }
  sync->WritesDone();
  sync->Finish();
}

// Child process: 12 first messages after 1.02 to 1.05 s of idling, in milliseconds.
int ProbeIdle(bool guarded) {
  const std::shared_ptr<IdleGuard> guard = guarded ? IdleGuard::Get() : nullptr;
  const EchoServer server;
  PingClient client(server.port());
  const Bytes message = ToBytes(std::string(64, 'x'));
  for (int i = 0; i < 100; ++i) client.RoundTrip(message);
  for (int i = 0; i < 12; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1020 + 3 * (i % 11)));
    std::printf("%f\n", client.TimedRoundTrip(message));
  }
  std::fflush(stdout);
  return 0;
}

void FirstAfterIdling() {
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return;
  std::printf("\nfirst message after 1.02 to 1.05 s of idling, ms (min/med/max)\n");
  for (const char* guarded : {"1", "0"}) {
    FILE* child = popen((std::string("'") + self + "' --idle " + guarded).c_str(), "r");
    std::vector<double> tries;
    double ms = 0;
    while (std::fscanf(child, "%lf", &ms) == 1) tries.push_back(ms);
    if (pclose(child) != 0 || tries.empty()) {
      std::printf("  the child process failed\n");
      continue;
    }
    std::printf("  %s guard     %s\n", guarded[0] == '1' ? "with   " : "without",
                Spread(tries, "%7.2f %7.2f %7.2f").c_str());
  }
}

void UnknownFields() {
  internal::v1::Step step;
  step.set_sequence(1);
  step.set_round(7);
  step.mutable_prefix()->set_keep(100);
  step.mutable_prefix()->add_tokens(5);
  for (int i = 0; i < 5; ++i) {
    step.add_candidates(1000 + i);
    auto* q = step.add_q();
    for (int j = 0; j < 64; ++j) {
      q->add_ids(400 * j + i);
      q->add_weights(1 + j);
    }
  }
  const std::string wire = step.SerializeAsString();
  constexpr int kCalls = 1000;
  std::vector<double> search, parse;
  for (int turn = 0; turn < 11; ++turn) {
    search.push_back(Time(1,
                          [&] {
                            for (int i = 0; i < kCalls; ++i) {
                              benchmark::DoNotOptimize(messages::RefuseUnknown(step).ok());
                            }
                          }) /
                     kCalls);
    parse.push_back(Time(1,
                         [&] {
                           for (int i = 0; i < kCalls; ++i) {
                             internal::v1::Step read;
                             benchmark::DoNotOptimize(read.ParseFromString(wire));
                           }
                         }) /
                    kCalls);
  }
  std::printf("\na Step with 5 q of 64 entries (%zu bytes), us (min/med/max)\n", wire.size());
  std::printf("  RefuseUnknown     %s\n", Spread(search, "%7.3f %7.3f %7.3f").c_str());
  std::printf("  to compare: parse %s\n", Spread(parse, "%7.3f %7.3f %7.3f").c_str());
}

}  // namespace

int Run(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--idle") return ProbeIdle(argv[2][0] == '1');
  if (argc > 1) {
    std::fprintf(stderr, "rpc_bench takes no arguments\n");
    return 2;
  }
  RoundTrips();
  std::fflush(stdout);
  FirstAfterIdling();
  UnknownFields();
  return 0;
}

}  // namespace tandem::transport

int main(int argc, char** argv) { return tandem::transport::Run(argc, argv); }
