// What tracing costs: tokens a second of the three services as processes, and their processor time a token,
// with every request traced, one in a hundred, and tracing off; and off once more, which says what the
// machine's noise makes of nothing at all. Spans go by OTLP/gRPC to a collector on the same machine that
// counts their bytes and drops them; what it takes of the processor counts in tokens a second as a cost, too.
//
//   tracing_cost [turns] [requests at once] [tokens a request]      60, 4 and 120, when absent
//
// They are measured in turn, in an order that changes with every turn, and compared within a turn. The
// interval is of the median: that of the order statistics which hold it with 95 % (a sign test's), whatever
// the times' distribution.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/config/check.h"
#include "tests/integration/models.h"
#include "tests/integration/process_cluster.h"
#include "tests/integration/requests.h"

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

// Of this process; they are all services here.
std::set<int> Children() {
  std::set<int> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    std::ifstream file(entry.path() / "stat");
    std::string line;
    std::getline(file, line);
    int parent = 0;
    char state = 0;
    const size_t name_end = line.rfind(')');
    if (name_end == std::string::npos) continue;
    if (std::sscanf(line.c_str() + name_end + 1, " %c %d", &state, &parent) == 2 &&
        parent == getpid()) {
      children.insert(pid);
    }
  }
  return children;
}

// Seconds that the processes' threads have computed; those that have ended are left out.
double ProcessorTime(const std::set<int>& processes) {
  double seconds = 0;
  for (int pid : processes) {
    const auto tasks = absl::StrCat("/proc/", pid, "/task");
    for (const auto& task : std::filesystem::directory_iterator(tasks)) {
      std::ifstream file(task.path() / "schedstat");
      double nanoseconds = 0;
      if (file >> nanoseconds) seconds += nanoseconds / 1e9;
    }
  }
  return seconds;
}

// The services of one variant. `ratio`: of the requests that are traced; empty: tracing is off.
struct Variant {
  Variant(std::string its_name, const std::string& ratio, const Collector& collector)
      : name(std::move(its_name)) {
    const std::set<int> before = Children();
    unsetenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    if (!ratio.empty()) {
      setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint().c_str(), 1);
      setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio", 1);
      setenv("OTEL_TRACES_SAMPLER_ARG", ratio.c_str(), 1);
    }
    cluster.emplace();
    cluster->StartOrchestrator();
    for (int pid : Children()) {
      if (!before.contains(pid)) processes.insert(pid);
    }
    TANDEM_CHECK(processes.size() == 3) << processes.size();
  }

  const std::string name;
  std::optional<ProcessCluster> cluster;
  std::set<int> processes;
  // One a turn.
  std::vector<double> tokens_per_second;
  std::vector<double> tokens_per_processor_second;
};

void Measure(Variant& variant, const std::vector<v1::GenerateRequest>& requests, int at_once) {
  const double processor_time = ProcessorTime(variant.processes);
  const auto began = std::chrono::steady_clock::now();
  size_t tokens = 0;
  for (const Reply& reply : SendAll(variant.cluster->channel(), requests, at_once)) {
    TANDEM_CHECK_OK(reply.status);
    tokens += reply.ids.size();
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - began;
  const auto count = static_cast<double>(tokens);
  variant.tokens_per_second.push_back(count / time.count());
  variant.tokens_per_processor_second.push_back(
      count / (ProcessorTime(variant.processes) - processor_time));
}

// Of n sorted values the median lies between those of this index and of n - 1 - it, with 95 %: as many or
// fewer values below the median have a chance of at most 2.5 % (Binomial(n, 1/2)).
size_t LowerIndex(size_t n) {
  double probability = std::pow(0.5, static_cast<double>(n));  // of exactly k = 0
  double below = 0;
  for (size_t k = 0; k < n; ++k) {
    below += probability;
    if (below > 0.025) return k - 1;
    probability *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return 0;
}

void Report(const std::string& name, const std::vector<double>& variant,
            const std::vector<double>& off) {
  std::vector<double> ratios;
  for (size_t i = 0; i < off.size(); ++i) ratios.push_back(variant[i] / off[i]);
  std::sort(ratios.begin(), ratios.end());
  const size_t n = ratios.size();
  const size_t low = LowerIndex(n);
  const double least = ratios[low];
  const double most = ratios[n - 1 - low];
  std::printf("%-10s %7.3f %7.3f %7.3f   %.3f to %.3f   %+.1f %% (%+.1f to %+.1f)\n", name.c_str(),
              ratios.front(), ratios[n / 2], ratios.back(), least, most, 100 * (1 - ratios[n / 2]),
              100 * (1 - most), 100 * (1 - least));
}

int Run(int turns, int at_once, uint32_t tokens) {
  std::printf("starting four times three services\n");
  const Collector collector;
  Variant off("off", "", collector);
  Variant rare("0.01", "0.01", collector);
  Variant all("1", "1", collector);
  Variant again("off again", "", collector);
  std::vector<v1::GenerateRequest> requests;
  const auto tokenizer = LoadTokenizer(kDemoTarget);
  for (const std::string& prompt : TenPrompts()) {
    requests.push_back(GreedyRequest(*tokenizer->Encode(prompt), tokens, 4));
    requests.back().mutable_stop()->set_ignore_eos(true);
  }
  Variant* const variants[] = {&off, &rare, &all, &again};
  for (Variant* variant : variants) {  // warms up
    Measure(*variant, requests, at_once);
    variant->tokens_per_second.clear();
    variant->tokens_per_processor_second.clear();
  }
  const uint64_t bytes_before = collector.bytes();
  for (int turn = 0; turn < turns; ++turn) {
    for (int i = 0; i < 4; ++i) Measure(*variants[(turn + i) % 4], requests, at_once);
    if ((turn + 1) % 10 == 0) std::fprintf(stderr, "turn %d of %d\n", turn + 1, turns);
  }
  TANDEM_CHECK(collector.bytes() > bytes_before) << "nothing was traced";
  std::printf("%d turns of %zu requests of %u tokens, %d at once; spans of %.1f MB\n", turns,
              requests.size(), tokens, at_once,
              static_cast<double>(collector.bytes() - bytes_before) / 1e6);
  const auto report = [&](const char* what, std::vector<double> Variant::*values) {
    std::vector<double> sorted = off.*values;
    std::sort(sorted.begin(), sorted.end());
    std::printf("%s: %.0f with tracing off; beside that\n%-10s %7s %7s %7s   %-14s   %s\n", what,
                sorted[sorted.size() / 2], "ratio", "least", "median", "most", "median, 95 %",
                "costs (95 %)");
    for (const Variant* variant : {&again, &rare, &all}) {
      Report(variant->name, variant->*values, off.*values);
    }
  };
  report("tokens a second", &Variant::tokens_per_second);
  report("tokens a second of processor time", &Variant::tokens_per_processor_second);
  return 0;
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 60;
  const int at_once = argc > 2 ? std::atoi(argv[2]) : 4;
  const int tokens = argc > 3 ? std::atoi(argv[3]) : 120;
  if (turns < 6 || at_once < 1 || tokens < 1) {
    std::fprintf(stderr, "usage: tracing_cost [turns, at least 6] [at once] [tokens a request]\n");
    return 2;
  }
  return tandem::testing::Run(turns, at_once, static_cast<uint32_t>(tokens));
}
