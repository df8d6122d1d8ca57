// What long prompts cost an orchestrator: memory at its peak, processor time, and the time until
// every sample has its first token. All samples are there before the first of them is answered
// (stub_peers.h). Several orchestrators are measured in turn, each time as a new process, and
// compared with the first within a turn.
//
//   build/release/bench/long_prompts [turns] [requests] [samples] [tokens] [orchestrator …]
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/serving/stub_peers.h"
#include "bench/serving/turns.h"
#include "common/base/check.h"
#include "common/transport/channel.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/integration/models.h"
#include "tests/integration/process_cluster.h"
#include "tests/integration/requests.h"
#include "tests/support/paths.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using Clock = std::chrono::steady_clock;

struct Load {
  int turns = 3;
  int requests = 64;
  uint32_t samples = 16;
  uint32_t tokens = 100000;
};

// In the order of kNames.
using Costs = std::vector<double>;
constexpr const char* kNames[] = {"peak MiB", "processor s", "first tokens s", "all s"};

double PeakMebibytes(int process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/status"));
  std::string word;
  double kibibytes = 0;
  while (file >> word) {
    if (word == "VmHWM:") file >> kibibytes;
  }
  return kibibytes / 1024;
}

v1::GenerateRequest MakeRequest(const Load& load, uint32_t index) {
  std::vector<uint32_t> prompt(load.tokens);
  for (uint32_t i = 0; i < load.tokens; ++i) prompt[i] = 300 + (i * 7 + index) % 200;
  v1::GenerateRequest request = GreedyRequest(prompt, /*max_tokens=*/16, /*draft_tokens=*/4);
  request.set_samples(load.samples);
  return request;
}

// When every sample had its first token.
Clock::time_point SendOne(const std::shared_ptr<grpc::Channel>& channel,
                          const v1::GenerateRequest& request) {
  std::set<uint32_t> samples;
  Clock::time_point last;
  auto stub = v1::Generation::NewStub(channel);
  grpc::ClientContext context;
  auto reader = stub->Generate(&context, request);
  v1::GenerateReply reply;
  while (reader->Read(&reply)) {
    if (reply.has_delta() && samples.insert(reply.delta().sample_index()).second) {
      last = Clock::now();
    }
  }
  const grpc::Status status = reader->Finish();
  TANDEM_CHECK(status.ok()) << status.error_message();
  TANDEM_CHECK(samples.size() == request.samples()) << samples.size();
  return last;
}

Costs Measure(const std::string& binary, StubPeers& peers, const Load& load) {
  const std::string relative = std::filesystem::relative(binary, BinaryPath(""));
  Process orchestrator(relative,
                       {"--listen=127.0.0.1:0", absl::StrCat("--tokenizer=", DemoTarget()),
                        absl::StrCat("--target=", peers.target_address()),
                        absl::StrCat("--draft=", peers.draft_address())},
                       "port_file");
  const std::set<int> processes = Children();
  const auto channel =
      transport::MakeChannel(absl::StrCat("127.0.0.1:", orchestrator.WaitForPort()));
  TANDEM_CHECK(WaitUntil([&] { return IsServing(channel); })) << orchestrator.Output();

  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < load.requests; ++i) requests.push_back(MakeRequest(load, i));
  peers.AnswerTogether(load.requests * static_cast<int>(load.samples));
  std::vector<Clock::time_point> first_tokens(requests.size());
  const double processor_time = ProcessorTime(processes);
  const auto began = Clock::now();
  std::vector<std::thread> threads;
  for (size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back([&, i] { first_tokens[i] = SendOne(channel, requests[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  const auto seconds = [&](Clock::time_point until) {
    return std::chrono::duration<double>(until - began).count();
  };
  return {PeakMebibytes(*processes.begin()), ProcessorTime(processes) - processor_time,
          seconds(*std::max_element(first_tokens.begin(), first_tokens.end())),
          seconds(Clock::now())};
}

void PrintSpread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::printf("  %9.3f / %9.3f / %9.3f\n", values.front(), values[values.size() / 2],
              values.back());
}

int Run(const Load& load, const std::vector<std::string>& binaries) {
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer = LoadTokenizer(DemoTarget());
  StubPeers peers(tokenizer->content_id(), tokenizer->vocabulary_size(), 1 << 18);
  std::vector<std::vector<Costs>> costs(binaries.size());  // [binary][turn]
  for (int turn = 0; turn < load.turns; ++turn) {
    for (size_t i = 0; i < binaries.size(); ++i) {
      const size_t which = (i + turn) % binaries.size();
      costs[which].push_back(Measure(binaries[which], peers, load));
    }
  }
  for (size_t which = 0; which < binaries.size(); ++which) {
    std::printf("%s: min / median / max\n", binaries[which].c_str());
    for (size_t what = 0; what < std::size(kNames); ++what) {
      std::vector<double> values;
      std::vector<double> ratios;
      for (int turn = 0; turn < load.turns; ++turn) {
        values.push_back(costs[which][turn][what]);
        ratios.push_back(values.back() / costs[0][turn][what]);
      }
      std::printf("  %-16s", kNames[what]);
      PrintSpread(std::move(values));
      if (which == 0) continue;
      std::printf("  %-16s", "  to the first");
      PrintSpread(std::move(ratios));
    }
  }
  return 0;
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  tandem::testing::Load load;
  const std::vector<std::string> args(argv + 1, argv + argc);
  const bool numbers = (args.size() < 1 || absl::SimpleAtoi(args[0], &load.turns)) &&
                       (args.size() < 2 || absl::SimpleAtoi(args[1], &load.requests)) &&
                       (args.size() < 3 || absl::SimpleAtoi(args[2], &load.samples)) &&
                       (args.size() < 4 || absl::SimpleAtoi(args[3], &load.tokens));
  if (!numbers || load.turns < 1 || load.requests < 1 || load.samples < 1 || load.tokens < 1) {
    std::fprintf(stderr, "usage: %s [turns] [requests] [samples] [tokens] [orchestrator …]\n",
                 argv[0]);
    return 2;
  }
  std::vector<std::string> binaries(args.begin() + std::min<size_t>(4, args.size()), args.end());
  if (binaries.empty()) binaries = {tandem::testing::BinaryPath("tandem-orchestrator")};
  return tandem::testing::Run(load, binaries);
}
