// tandem-orchestrator: takes requests, and joins a draft and a target for each.
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/concurrency/system_clock.h"
#include "common/process/flag_values.h"
#include "common/process/process.h"
#include "common/process/service_main.h"
#include "common/telemetry/tracing.h"
#include "common/transport/server_host.h"
#include "orchestrator/options.h"
#include "orchestrator/wiring.h"

using tandem::process::NumberFlag;
using tandem::process::TimeFlag;
using Active = NumberFlag<1, 65536>;
using Lined = NumberFlag<0, 16384>;

ABSL_FLAG(
    std::string, target, "",
    "HOST:PORT of the target services, with commas between. At least one. Each address that a host "
    "name has is a target of its own.");
ABSL_FLAG(std::string, draft, "",
          "HOST:PORT of the draft services, with commas between. Empty: the target alone.");
ABSL_FLAG(TimeFlag, resolve_every, {absl::Seconds(5)},
          "Host names of targets and drafts are looked up again so often.");
ABSL_FLAG(std::string, tokenizer, "", "Directory with the models' tokenizer.json. Needed.");
ABSL_FLAG(std::string, listen, "127.0.0.1:50050", "HOST:PORT to serve on; port 0: any free one.");
ABSL_FLAG(std::string, admin_listen, "",
          "HOST:PORT for health and /metrics, plaintext, for the pod itself; empty: none.");
ABSL_FLAG(std::string, tls_certificate, "",
          "PEM file with the certificate to serve with, and those between it and its authority. "
          "Empty: plaintext. Looked at again when it changes, as all these files.");
ABSL_FLAG(std::string, tls_key, "", "PEM file with its key.");
ABSL_FLAG(std::string, tls_client_ca, "",
          "PEM file with authorities: who connects must show a certificate of one of them. Empty: "
          "nobody is asked for one.");
ABSL_FLAG(std::string, peer_tls_ca, "",
          "PEM file with the authorities of the targets' and drafts' certificates. Empty: "
          "plaintext.");
ABSL_FLAG(std::string, peer_tls_certificate, "",
          "PEM file with the certificate to show them; empty: none.");
ABSL_FLAG(std::string, peer_tls_key, "", "PEM file with its key.");
ABSL_FLAG(std::string, peer_tls_server_name, "",
          "The name in their certificates; empty: the host of each address.");
ABSL_FLAG(std::string, token_file, "",
          "File with the tokens of those who may call, one a line; looked at again when it "
          "changes. Empty: everybody may call.");
ABSL_FLAG(std::string, port_file, "", "The bound port is written there once it is known.");
ABSL_FLAG(
    TimeFlag, draft_wait, {absl::Milliseconds(200)},
    "The longest that a round waits for its block. It adapts downwards to the target's pace.");
ABSL_FLAG(TimeFlag, draft_wait_floor, {absl::Milliseconds(20)},
          "The adapted wait is never shorter than this.");
ABSL_FLAG(TimeFlag, target_patience, {absl::Seconds(30)},
          "A request ends when the target has been of no use for this long.");
ABSL_FLAG(TimeFlag, slot_patience, {absl::Seconds(60)},
          "A request without a deadline waits this long for a free slot at the target.");
ABSL_FLAG(TimeFlag, watchdog_min, {absl::Milliseconds(500)},
          "A Step is never given up before this.");
ABSL_FLAG(TimeFlag, drain_delay, {absl::ZeroDuration()},
          "After SIGTERM it is not ready, but takes requests for this long: until those who ask by "
          "name, a proxy or "
          "a load balancer know that it goes. 0s to 10m.");
ABSL_FLAG(TimeFlag, grace, {absl::Seconds(10)},
          "After that running requests may finish within this; 0s to 1h.");
ABSL_FLAG(Active, max_active_requests, {256}, "Requests beyond these wait.");
ABSL_FLAG(Lined, max_waiting_requests, {1024},
          "Requests that may wait; those beyond them are refused. 0: nobody waits.");
ABSL_FLAG(TimeFlag, admission_patience, {absl::Seconds(60)},
          "A request without a deadline waits this long to be admitted.");
ABSL_FLAG(std::string, client_id, "", "Name towards the peers; empty: host, process and a number.");

namespace {

using tandem::base::LogFields;
using tandem::orchestrator::Options;
using tandem::orchestrator::Orchestrator;
using tandem::telemetry::Tracing;
using tandem::transport::ServerHost;
using tandem::transport::ServerHostOptions;

// Options::Validate says what is wrong with them.
std::vector<std::string> Addresses(const std::string& flag) {
  if (flag.empty()) return {};
  std::vector<std::string> addresses = absl::StrSplit(flag, ',');
  for (std::string& address : addresses) absl::StripAsciiWhitespace(&address);
  return addresses;
}

Options OptionsFromFlags() {
  Options options;
  options.target_addresses = Addresses(absl::GetFlag(FLAGS_target));
  options.draft_addresses = Addresses(absl::GetFlag(FLAGS_draft));
  options.tokenizer_directory = absl::GetFlag(FLAGS_tokenizer);
  options.client_id = absl::GetFlag(FLAGS_client_id);
  options.peer_tls = {absl::GetFlag(FLAGS_peer_tls_ca), absl::GetFlag(FLAGS_peer_tls_certificate),
                      absl::GetFlag(FLAGS_peer_tls_key), absl::GetFlag(FLAGS_peer_tls_server_name)};
  options.token_file = absl::GetFlag(FLAGS_token_file);
  options.max_active_requests =
      static_cast<uint32_t>(absl::GetFlag(FLAGS_max_active_requests).value);
  options.max_waiting_requests =
      static_cast<uint32_t>(absl::GetFlag(FLAGS_max_waiting_requests).value);
  options.admission_patience = absl::GetFlag(FLAGS_admission_patience).value;
  options.loop.draft_wait = absl::GetFlag(FLAGS_draft_wait).value;
  options.loop.draft_wait_floor = absl::GetFlag(FLAGS_draft_wait_floor).value;
  options.resolve_every = absl::GetFlag(FLAGS_resolve_every).value;
  options.loop.target_patience = absl::GetFlag(FLAGS_target_patience).value;
  options.loop.slot_patience = absl::GetFlag(FLAGS_slot_patience).value;
  options.loop.watchdog_min = absl::GetFlag(FLAGS_watchdog_min).value;
  return options;
}

// All that was decided, by flags or without them.
void LogStart(const Options& options, const ServerHost& host, const std::string& tracing) {
  const auto list = [](const std::vector<std::string>& addresses) {
    return addresses.empty() ? "none" : absl::StrJoin(addresses, ",");
  };
  LogFields start("start");
  start.Add("service", "orchestrator")
      .Add("version", tandem::base::Version())
      .Add("instance", options.client_id)
      .Add("listen", absl::GetFlag(FLAGS_listen))
      .Add("port", host.port());
  if (host.admin_port() != 0) {
    start.Add("admin", absl::GetFlag(FLAGS_admin_listen)).Add("admin_port", host.admin_port());
  } else {
    start.Add("admin", "none");
  }
  start.Add("targets", list(options.target_addresses))
      .Add("drafts", list(options.draft_addresses))
      .Add("resolve_every", options.resolve_every)
      .Add("tokenizer", options.tokenizer_directory)
      .Add("max_active_requests", options.max_active_requests)
      .Add("max_waiting_requests", options.max_waiting_requests)
      .Add("admission_patience", options.admission_patience)
      .Add("draft_wait", options.loop.draft_wait)
      .Add("draft_wait_floor", options.loop.draft_wait_floor)
      .Add("watchdog_min", options.loop.watchdog_min)
      .Add("target_patience", options.loop.target_patience)
      .Add("slot_patience", options.loop.slot_patience)
      .Add("peer_encryption", options.peer_tls.Describe())
      .Add("tokens", options.token_file.empty() ? "none" : options.token_file)
      .Add("drain_delay", absl::GetFlag(FLAGS_drain_delay).value)
      .Add("grace", absl::GetFlag(FLAGS_grace).value)
      .Add("tracing", tracing);
  TANDEM_LOG(kInfo) << start;
}

// Keeps health up to date until SIGTERM or SIGINT comes.
void ServeUntilSignal(const Orchestrator& orchestrator, ServerHost& host) {
  absl::Status shown = absl::UnknownError("nothing was shown yet");
  do {
    const absl::Status ready = orchestrator.Ready();
    if (ready == shown) continue;
    host.SetReady(ready.ok());
    if (ready.ok()) {
      TANDEM_LOG(kInfo) << LogFields("ready");
    } else {
      TANDEM_LOG(kWarning) << LogFields("not_ready").Add("reason", ready.message());
    }
    shown = ready;
  } while (!tandem::process::WaitForStopSignal(absl::Milliseconds(50)));
}

ServerHostOptions HostOptionsFromFlags() {
  ServerHostOptions options;
  options.listen_address = absl::GetFlag(FLAGS_listen);
  options.tls = {absl::GetFlag(FLAGS_tls_certificate), absl::GetFlag(FLAGS_tls_key),
                 absl::GetFlag(FLAGS_tls_client_ca)};
  options.admin_address = absl::GetFlag(FLAGS_admin_listen);
  options.health_names = {"tandem.v1.Generation"};
  return options;
}

absl::Status CheckFlags() {
  using tandem::process::CheckTimeFlag;
  TANDEM_RETURN_IF_ERROR(
      CheckTimeFlag("drain_delay", absl::GetFlag(FLAGS_drain_delay).value, absl::Minutes(10)));
  TANDEM_RETURN_IF_ERROR(CheckTimeFlag("grace", absl::GetFlag(FLAGS_grace).value, absl::Hours(1)));
  TANDEM_RETURN_IF_ERROR(HostOptionsFromFlags().Validate());
  return OptionsFromFlags().Validate();
}

// Not ready, refusing, finishing, gone. A second signal ends the waiting.
void Drain(Orchestrator& orchestrator, ServerHost& host) {
  using tandem::process::DrainEnd;
  const absl::Duration delay = absl::GetFlag(FLAGS_drain_delay).value;
  const absl::Duration grace = absl::GetFlag(FLAGS_grace).value;
  host.SetReady(false);
  TANDEM_LOG(kInfo) << LogFields("draining")
                           .Add("running", orchestrator.active_requests())
                           .Add("waiting", orchestrator.waiting_requests())
                           .Add("drain_delay", delay)
                           .Add("grace", grace);
  DrainEnd end = tandem::process::WaitUntilDrained([] { return false; }, delay);
  if (end != DrainEnd::kSecondSignal) {
    // First those who ask hear it from us, then their connections do: what they send in between has an answer.
    orchestrator.Refuse();
    host.Refuse();
    TANDEM_LOG(kInfo) << LogFields("refusing").Add("running", orchestrator.active_requests());
    end = tandem::process::WaitUntilDrained(
        [&orchestrator] { return orchestrator.open_calls() == 0; }, grace);
  }
  const size_t rest = orchestrator.open_calls();
  orchestrator.Drain(absl::ZeroDuration());
  host.Drain(absl::Seconds(1));  // for last messages on their way
  TANDEM_LOG(kInfo) << LogFields("stopped")
                           .Add("waiting_ended", tandem::process::DrainEndName(end))
                           .Add("requests_ended", rest);
}

absl::Status Serve() {
  auto starting = std::make_unique<tandem::process::ExitOnStopSignal>();
  Options options = OptionsFromFlags();
  if (options.client_id.empty()) options.client_id = tandem::orchestrator::NewClientId();
  const tandem::concurrency::SteadyClock clock;
  TANDEM_ASSIGN_OR_RETURN(  // sends what is left when all else is gone
      std::unique_ptr<Tracing> tracing,
      Tracing::FromEnvironment(
          {"tandem-orchestrator", options.client_id, std::string(tandem::base::Version())}, clock));
  options.tracer = tracing->tracer();
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Orchestrator> orchestrator,
                          Orchestrator::Create(options));
  starting = nullptr;  // before the first request can come
  ServerHostOptions host_options = HostOptionsFromFlags();
  host_options.metrics = [&orchestrator = *orchestrator] { return orchestrator.MetricsText(); };
  host_options.services = {orchestrator->grpc_service()};
  TANDEM_ASSIGN_OR_RETURN(auto host, ServerHost::Start(host_options));
  LogStart(options, *host, tracing->Describe());
  if (!options.token_file.empty() && !host_options.tls.enabled()) {
    TANDEM_LOG(kWarning)
        << LogFields("tokens_in_plaintext").Add("hint", "give --tls_certificate and --tls_key");
  }
  TANDEM_RETURN_IF_ERROR(
      tandem::process::WritePortFile(absl::GetFlag(FLAGS_port_file), host->port()));
  ServeUntilSignal(*orchestrator, *host);
  Drain(*orchestrator, *host);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  return tandem::process::RunService(
      argc, argv,
      {"tandem-orchestrator",
       "Takes requests for text and runs them on drafts and targets.\n"
       "  tandem-orchestrator --target=HOST:PORT[,HOST:PORT...] --draft=HOST:PORT[,HOST:PORT...]"
       " --tokenizer=DIRECTORY",
       CheckFlags, Serve});
}
