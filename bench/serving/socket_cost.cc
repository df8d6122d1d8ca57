// What sockets between the three services of one process cost: the demo pair with services that meet
// over loopback, and with channels inside the process. The client uses a socket in both. One request at
// a time, in turn.
// Usage: socket_cost [turns] [tokens]
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/model/timing.h"
#include "common/base/check.h"
#include "common/transport/channel.h"
#include "tests/integration/cluster.h"
#include "tests/integration/models.h"
#include "tests/integration/requests.h"

namespace tandem::testing {
namespace {

struct Way {
  explicit Way(bool without_sockets) : cluster(Options(without_sockets)) {
    channel = transport::MakeChannel(absl::StrCat("127.0.0.1:", cluster.port()));
  }
  static ClusterOptions Options(bool without_sockets) {
    ClusterOptions options = DemoOptions();
    options.without_sockets = without_sockets;
    return options;
  }

  InProcessCluster cluster;
  std::shared_ptr<grpc::Channel> channel;
};

void Run(int turns, uint32_t tokens) {
  Way loopback(false);
  Way inside(true);
  const std::array<Way*, 2> ways = {&loopback, &inside};
  std::vector<v1::GenerateRequest> requests;
  for (const std::string& prompt : TenPrompts()) {
    requests.push_back(GreedyRequest(*loopback.cluster.tokenizer().Encode(prompt), tokens, 4));
    requests.back().mutable_stop()->set_ignore_eos(true);
  }
  std::vector<double> ratios;
  std::array<std::vector<double>, 2> round_times;  // microseconds
  for (int turn = -1; turn < turns; ++turn) {
    const v1::GenerateRequest& request = requests[(turn + 1) % requests.size()];
    std::array<double, 2> times{};
    std::array<std::vector<uint32_t>, 2> ids;
    for (int i = 0; i < 2; ++i) {
      const int way = (i + turn + 1) % 2;
      uint32_t rounds = 1;
      times[way] = bench::Microseconds([&] {
        const Reply reply = Send(ways[way]->channel, request);
        TANDEM_CHECK_OK(reply.status);
        rounds = reply.record().rounds();
        ids[way] = reply.ids;
      });
      times[way] /= rounds;
    }
    TANDEM_CHECK(ids[0] == ids[1]);
    if (turn < 0) continue;  // warms up
    for (int way = 0; way < 2; ++way) round_times[way].push_back(times[way]);
    ratios.push_back(times[1] / times[0]);
  }
  const char* const names[] = {"loopback", "in process"};
  for (int way = 0; way < 2; ++way) {
    const bench::Spread time = bench::SpreadOf(round_times[way]);
    std::printf("%-10s %7.0f / %7.0f / %7.0f us a round\n", names[way], time.min, time.median,
                time.max);
  }
  const bench::Spread ratio = bench::SpreadOf(ratios);
  std::printf("in process to loopback, of the same turn: %.2f / %.2f / %.2f\n", ratio.min,
              ratio.median, ratio.max);
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 40;
  const int tokens = argc > 2 ? std::atoi(argv[2]) : 120;
  if (turns < 1 || tokens < 1) {
    std::fprintf(stderr, "usage: socket_cost [turns] [tokens]\n");
    return 2;
  }
  std::printf("the demo pair, %d tokens; least / median / most of %d turns\n", tokens, turns);
  tandem::testing::Run(turns, static_cast<uint32_t>(tokens));
  return 0;
}
