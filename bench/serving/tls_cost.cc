// What TLS costs: tokens a second of the three services as processes on loopback, and their
// processor time a token, with mutual TLS between all of them and towards the client and a token
// with each call, beside the same in plaintext; and plaintext once more, which says what the
// machine's noise makes of nothing at all. The connections stand, so what is measured is the
// encryption of every message, and no handshake.
//
//   tls_cost [turns] [requests at once] [tokens a request]      60, 4 and 120, when absent
//
// How they are measured and compared: turns.h.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "bench/serving/turns.h"
#include "common/base/check.h"
#include "common/transport/channel.h"
#include "tests/integration/models.h"
#include "tests/integration/secure_services.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using Flags = std::vector<std::string>;

// The services of one variant. `files`: null is plaintext.
struct Variant : Measured {
  Variant(std::string its_name, const Files* files)
      : before(Children()),
        target("target", files == nullptr ? Flags{} : files->Server("target")),
        draft("draft", files == nullptr ? Flags{} : files->Server("draft")),
        orchestrator(
            "orchestrator",
            (files == nullptr ? Flags{}
                              : files->Server("orchestrator") + files->Peers("orchestrator") +
                                    Flags{"--token-file=" + files->Path("tokens")}) +
                Flags{"--target=" + target.address(), "--draft=" + draft.address()}) {
    name = std::move(its_name);
    transport::ChannelSecurity security;
    if (files != nullptr) {
      auto made = transport::MakeChannelSecurity(
          {files->Path("trust.pem"), files->Path("client.pem"), files->Path("client.key"), ""},
          files->Path("mine"));
      TANDEM_CHECK_OK(made);
      security = *std::move(made);
    }
    channel = transport::MakeChannel(orchestrator.address(), security);
    TANDEM_CHECK(WaitUntil([&] { return IsServing(channel); })) << orchestrator.Output();
    TANDEM_CHECK(HasLine(orchestrator.Output(), {files == nullptr ? "encryption=plaintext"
                                                                  : "encryption=\"mutual tls\""}));
    for (int pid : Children()) {
      if (!before.contains(pid)) processes.insert(pid);
    }
    TANDEM_CHECK(processes.size() == 3) << processes.size();
  }

  const std::set<int> before;
  Service target, draft, orchestrator;
};

int Run(int turns, int at_once, uint32_t tokens) {
  std::printf("starting three times three services\n");
  const ScratchFolder folder;
  const Files files{folder.path() + "/certs"};
  MakeCertificates(files.folder);
  WriteFile(files.Path("trust.pem"), ReadFile(files.Path("ca.pem")));
  for (const char* name : {"tokens", "mine"}) WriteFile(files.Path(name), "0123456789abcdef");
  Variant plain("plaintext", nullptr);
  Variant tls("tls", &files);
  Variant again("again", nullptr);
  MeasureInTurn({&plain, &tls, &again}, TenRequests(tokens), turns, at_once);
  std::printf("%d turns of ten requests of %u tokens, %d at once\n", turns, tokens, at_once);
  Report(plain, {&again, &tls});
  return 0;
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) {
  return tandem::testing::RunTurns(argc, argv, tandem::testing::Run);
}
