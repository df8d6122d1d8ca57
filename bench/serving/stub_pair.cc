// A target and a draft that compute nothing (stub_peers.h), for the tokenizer of a directory: what an
// orchestrator takes beside them is its own.
//
//   build/release/bench/stub_pair demo/target      prints both addresses; ends with SIGTERM
#include <signal.h>

#include <cstdio>

#include "bench/serving/stub_peers.h"
#include "common/base/check.h"
#include "common/tokenizer/tokenizer.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s TOKENIZER\n", argv[0]);
    return 2;
  }
  // Blocked before any thread starts, so that sigwait gets them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto tokenizer = tandem::tokenizer::Tokenizer::Load(argv[1]);
  TANDEM_CHECK_OK(tokenizer.status());
  const tandem::testing::StubPeers peers((*tokenizer)->content_id(),
                                         (*tokenizer)->vocabulary_size(),
                                         /*context_length=*/4096);
  std::printf("%s %s\n", peers.target_address().c_str(), peers.draft_address().c_str());
  std::fflush(stdout);
  int signal_number = 0;
  sigwait(&signals, &signal_number);
  return 0;
}
