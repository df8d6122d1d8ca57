// What tracing costs: tokens a second of the three services as processes, and their processor time
// a token, with every request traced, one in a hundred, and tracing off; and off once more, which
// says what the machine's noise makes of nothing at all. Spans go by OTLP/gRPC to a collector on
// the same machine that counts their bytes and drops them; what it takes of the processor counts in
// tokens a second as a cost, too.
//
//   tracing_cost [turns] [requests at once] [tokens a request]      60, 4 and 120, when absent
//
// How they are measured and compared: turns.h.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/serving/turns.h"
#include "common/base/check.h"
#include "tests/integration/process_cluster.h"

namespace tandem::testing {
namespace {

// Takes any unary call: what it sends is counted, and the answer is an empty message.
class Collector final : public grpc::CallbackGenericService {
 public:
  Collector() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
    TANDEM_CHECK(server_ != nullptr && port_ > 0);
  }

  std::string endpoint() const { return absl::StrCat("http://127.0.0.1:", port_); }
  uint64_t bytes() const { return bytes_; }

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Call(*this);
  }

 private:
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Call(Collector& collector) : collector_(collector) { StartRead(&message_); }
    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::CANCELLED);
      collector_.bytes_ += message_.Length();
      const grpc::Slice empty;
      answer_ = grpc::ByteBuffer(&empty, 1);
      StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    Collector& collector_;
    grpc::ByteBuffer message_;
    grpc::ByteBuffer answer_;
  };

  int port_ = 0;
  std::atomic<uint64_t> bytes_{0};
  std::unique_ptr<grpc::Server> server_;
};

// The services of one variant. `ratio`: of the requests that are traced; empty: tracing is off.
struct Variant : Measured {
  Variant(std::string its_name, const std::string& ratio, const Collector& collector) {
    name = std::move(its_name);
    const std::set<int> before = Children();
    unsetenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    if (!ratio.empty()) {
      setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint().c_str(), 1);
      setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio", 1);
      setenv("OTEL_TRACES_SAMPLER_ARG", ratio.c_str(), 1);
    }
    cluster.emplace();
    cluster->StartOrchestrator();
    channel = cluster->channel();
    for (int pid : Children()) {
      if (!before.contains(pid)) processes.insert(pid);
    }
    TANDEM_CHECK(processes.size() == 3) << processes.size();
  }

  std::optional<ProcessCluster> cluster;
};

int Run(int turns, int at_once, uint32_t tokens) {
  std::printf("starting four times three services\n");
  const Collector collector;
  Variant off("off", "", collector);
  Variant rare("0.01", "0.01", collector);
  Variant all("1", "1", collector);
  Variant again("off again", "", collector);
  const std::vector<v1::GenerateRequest> requests = TenRequests(tokens);
  MeasureInTurn({&off, &rare, &all, &again}, requests, turns, at_once);
  TANDEM_CHECK(collector.bytes() > 0) << "nothing was traced";
  std::printf("%d turns of %zu requests of %u tokens, %d at once; spans of %.1f MB\n", turns,
              requests.size(), tokens, at_once, static_cast<double>(collector.bytes()) / 1e6);
  Report(off, {&again, &rare, &all});
  return 0;
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  return tandem::testing::RunTurns(argc, argv, tandem::testing::Run);
}
