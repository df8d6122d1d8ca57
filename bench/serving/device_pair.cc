// The three services on a pair whose device is one of its own (DeviceLikePair in
// tests/integration/fairness.h): what `tandem bench` shows against it is the scheduling, on any
// machine.
//
//   build/release/bench/device_pair [MS] &   prints the addresses of orchestrator, target and
//                                            draft, a line each; ends with SIGTERM
//   build/release/bin/tandem bench --prompts-file=bench/serving/letters.txt --orchestrator=ADDRESS
//   …
#include <signal.h>

#include <cstdio>
#include <cstdlib>

#include "tests/integration/cluster.h"
#include "tests/integration/fairness.h"

int main(int argc, char** argv) {
  // Blocked before any thread starts, so that sigwait gets them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const double draft_ms = argc > 1 ? std::atof(argv[1]) : 0.8;
  if (draft_ms <= 0) return 2;
  tandem::testing::InProcessCluster cluster(
      tandem::testing::DeviceLikePair(absl::Milliseconds(draft_ms)));
  for (int port : {cluster.port(), cluster.target_port(), cluster.draft_port()}) {
    std::printf("127.0.0.1:%d\n", port);
  }
  std::fflush(stdout);
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  return 0;
}
