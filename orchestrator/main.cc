// tandem-orchestrator: takes requests, and joins one draft with one target.
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/time/time.h"
#include "common/config/log.h"
#include "common/rpc/server_host.h"
#include "orchestrator/wiring.h"

ABSL_FLAG(std::string, target, "", "HOST:PORT of the target service. Needed.");
ABSL_FLAG(std::string, draft, "", "HOST:PORT of the draft service. Empty: the target alone.");
ABSL_FLAG(std::string, tokenizer, "", "Directory with the models' tokenizer.json. Needed.");
ABSL_FLAG(std::string, listen, "127.0.0.1:50050", "HOST:PORT to serve on; port 0: any free one.");
ABSL_FLAG(std::string, admin_listen, "",
          "HOST:PORT for health alone, plaintext, for the pod itself; empty: none.");
ABSL_FLAG(std::string, port_file, "", "The bound port is written there once it is known.");
ABSL_FLAG(
    absl::Duration, draft_wait, absl::Milliseconds(200),
    "The longest that a round waits for its block. It adapts downwards to the target's pace.");
ABSL_FLAG(absl::Duration, draft_wait_floor, absl::Milliseconds(20),
          "The adapted wait is never shorter than this.");
ABSL_FLAG(absl::Duration, target_patience, absl::Seconds(30),
          "A request ends when the target has been of no use for this long.");
ABSL_FLAG(absl::Duration, slot_patience, absl::Seconds(60),
          "A request without a deadline waits this long for a free slot at the target.");
ABSL_FLAG(absl::Duration, watchdog_least, absl::Milliseconds(500),
          "A Step is never given up before this.");
ABSL_FLAG(absl::Duration, grace, absl::Seconds(10),
          "After SIGTERM running requests may finish within this.");
ABSL_FLAG(uint32_t, most_active_requests, 256, "Requests beyond these are refused.");
ABSL_FLAG(std::string, client_id, "", "Name towards the peers; empty: host, process and a number.");

namespace {

using tandem::orchestrator::Options;
using tandem::orchestrator::Orchestrator;

Options OptionsFromFlags() {
  Options options;
  options.target_address = absl::GetFlag(FLAGS_target);
  options.draft_address = absl::GetFlag(FLAGS_draft);
  options.tokenizer_directory = absl::GetFlag(FLAGS_tokenizer);
  options.client_id = absl::GetFlag(FLAGS_client_id);
  options.most_active_requests = absl::GetFlag(FLAGS_most_active_requests);
  options.loop.draft_wait = absl::GetFlag(FLAGS_draft_wait);
  options.loop.draft_wait_floor = absl::GetFlag(FLAGS_draft_wait_floor);
  options.loop.target_patience = absl::GetFlag(FLAGS_target_patience);
  options.loop.slot_patience = absl::GetFlag(FLAGS_slot_patience);
  options.loop.watchdog_least = absl::GetFlag(FLAGS_watchdog_least);
  return options;
}

int Fail(const absl::Status& status) {
  std::cerr << "tandem-orchestrator: " << status.message() << "\n";
  return EXIT_FAILURE;
}

// Written beside and moved: a reader never sees half a number.
bool WritePort(const std::string& path, int port) {
  const std::string beside = path + ".new";
  std::ofstream file(beside);
  file << port << "\n";
  file.close();
  return file.good() && std::rename(beside.c_str(), path.c_str()) == 0;
}

// Keeps health up to date until SIGTERM or SIGINT comes.
void ServeUntilSignal(const sigset_t& signals, const Orchestrator& orchestrator,
                      tandem::rpc::ServerHost& host) {
  absl::Status shown = absl::UnknownError("nothing was shown yet");
  const timespec look_again = {0, 50'000'000};
  do {
    const absl::Status ready = orchestrator.Ready();
    if (ready == shown) continue;
    host.SetReady(ready.ok());
    TANDEM_LOG(kInfo) << (ready.ok() ? "ready" : absl::StrCat("not ready: ", ready.message()));
    shown = ready;
  } while (sigtimedwait(&signals, nullptr, &look_again) < 0);
}

int Serve(const sigset_t& signals) {
  const absl::Duration grace = absl::GetFlag(FLAGS_grace);
  if (grace < absl::ZeroDuration() || grace > absl::Hours(1)) {
    return Fail(absl::InvalidArgumentError("grace must be 0s to 1h"));
  }
  auto orchestrator = Orchestrator::Create(OptionsFromFlags());
  if (!orchestrator.ok()) return Fail(orchestrator.status());
  tandem::rpc::ServerHostOptions host_options;
  host_options.listen_address = absl::GetFlag(FLAGS_listen);
  host_options.admin_address = absl::GetFlag(FLAGS_admin_listen);
  host_options.services = {(*orchestrator)->grpc_service()};
  host_options.health_names = {"tandem.v1.Generation"};
  auto host = tandem::rpc::ServerHost::Start(host_options);
  if (!host.ok()) return Fail(host.status());
  TANDEM_LOG(kInfo) << "serving on port " << (*host)->port() << ", target "
                    << absl::GetFlag(FLAGS_target) << ", draft "
                    << (absl::GetFlag(FLAGS_draft).empty() ? "none" : absl::GetFlag(FLAGS_draft))
                    << ", tokenizer " << absl::GetFlag(FLAGS_tokenizer);
  const std::string port_file = absl::GetFlag(FLAGS_port_file);
  if (!port_file.empty() && !WritePort(port_file, (*host)->port())) {
    return Fail(
        absl::InvalidArgumentError(absl::StrCat("port_file ", port_file, " cannot be written")));
  }
  ServeUntilSignal(signals, **orchestrator, **host);
  TANDEM_LOG(kInfo) << "stopping: running requests may finish within "
                    << absl::FormatDuration(grace);
  (*host)->SetReady(false);
  (*orchestrator)->Drain(grace);
  (*host)->Drain(absl::Seconds(1));
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Takes requests for text and runs them on a draft and a target.\n"
      "  tandem-orchestrator --target=HOST:PORT --draft=HOST:PORT --tokenizer=DIRECTORY");
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) {
    std::cerr << "tandem-orchestrator: \"" << rest[1] << "\" is no flag; all arguments are flags\n";
    return EXIT_FAILURE;
  }
  // Blocked before any thread begins, so that only sigtimedwait sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return Serve(signals);
}
