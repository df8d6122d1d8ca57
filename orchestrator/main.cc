// tandem-orchestrator: takes requests, and joins a draft and a target for each.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/base/version.h"
#include "common/concurrency/system_clock.h"
#include "common/hub/local_directory.h"
#include "common/process/process.h"
#include "common/process/service_main.h"
#include "common/security/grpc_log.h"
#include "common/telemetry/tracing.h"
#include "common/transport/server_host.h"
#include "orchestrator/flags.h"
#include "orchestrator/options.h"
#include "orchestrator/wiring.h"

namespace {

using tandem::base::LogFields;
using tandem::orchestrator::Flags;
using tandem::orchestrator::Options;
using tandem::orchestrator::Orchestrator;
using tandem::telemetry::Tracing;
using tandem::transport::ServerHost;
using tandem::transport::ServerHostOptions;

// Logs all options, whether flags set them or not.
void LogStart(const Flags& flags, const Options& options, const ServerHost& host,
              const std::string& tracing) {
  const auto list = [](const std::vector<std::string>& addresses) {
    return addresses.empty() ? "none" : absl::StrJoin(addresses, ",");
  };
  LogFields start("start");
  start.Add("service", "orchestrator")
      .Add("version", tandem::base::Version())
      .Add("instance", options.client_id)
      .Add("listen", flags.server.listen)
      .Add("port", host.port());
  if (host.admin_port() != 0) {
    start.Add("admin", flags.server.admin_listen).Add("admin_port", host.admin_port());
  } else {
    start.Add("admin", "none");
  }
  start.Add("targets", list(options.target_addresses))
      .Add("drafts", list(options.draft_addresses))
      .Add("resolve_every", options.resolve_every)
      .Add("tokenizer", options.tokenizer_directory)
      .Add("chat_template", options.chat_template_file)
      .Add("max_active_requests", options.max_active_requests)
      .Add("max_waiting_requests", options.max_waiting_requests)
      .Add("max_unchecked_mib", options.max_unchecked_mib)
      .Add("admission_patience", options.admission_patience)
      .Add("reader_patience", options.loop.abort_after)
      .Add("max_open_calls", options.open_calls())
      .Add("max_unread_bytes", options.max_unread_bytes)
      .Add("default_max_tokens", options.default_max_tokens)
      .Add("drafter", options.drafter)
      .Add("length_policy", options.length_policy)
      .Add("prepare", options.prepare)
      .Add("draft_wait", options.loop.draft_wait)
      .Add("draft_wait_floor", options.loop.draft_wait_floor)
      .Add("watchdog_min", options.loop.watchdog_min)
      .Add("target_patience", options.loop.target_patience)
      .Add("slot_patience", options.loop.slot_patience)
      .Add("peer_encryption", options.peer_tls.Describe())
      .Add("tokens", options.token_file.empty() ? "none" : options.token_file)
      .Add("drain_delay", flags.drain_delay)
      .Add("grace", flags.server.grace)
      .Add("tracing", tracing);
  TANDEM_LOG(kInfo) << start;
}

// Keeps health up to date until SIGTERM or SIGINT comes.
void ServeUntilSignal(const Orchestrator& orchestrator, ServerHost& host,
                      const tandem::http::Port* http) {
  absl::Status shown = absl::UnknownError("nothing was shown yet");
  do {
    absl::Status ready = orchestrator.Ready();
    if (ready.ok() && http != nullptr && !http->admits()) {
      ready = absl::UnavailableError("the HTTP port refuses connections, for all are taken");
    }
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

// Not ready, refusing, finishing, gone. A second signal ends the waiting.
void Drain(const Flags& flags, Orchestrator& orchestrator, ServerHost& host,
           tandem::http::Port* http) {
  using tandem::process::DrainEnd;
  const absl::Duration delay = flags.drain_delay;
  const absl::Duration grace = flags.server.grace;
  host.SetReady(false);
  TANDEM_LOG(kInfo) << LogFields("draining")
                           .Add("running", orchestrator.active_requests())
                           .Add("waiting", orchestrator.waiting_requests())
                           .Add("drain_delay", delay)
                           .Add("grace", grace);
  DrainEnd end = tandem::process::WaitUntilDrained([] { return false; }, delay);
  if (end != DrainEnd::kSecondSignal) {
    // Callers are refused first and their connections end later, so calls that arrive in between
    // get an answer.
    orchestrator.Refuse();
    host.Refuse();
    if (http != nullptr) http->Refuse();
    TANDEM_LOG(kInfo) << LogFields("refusing").Add("running", orchestrator.active_requests());
    end = tandem::process::WaitUntilDrained(
        [&orchestrator] { return orchestrator.open_calls() == 0; }, grace);
  }
  const size_t rest = orchestrator.open_calls();
  orchestrator.Drain(absl::ZeroDuration());
  host.Drain(absl::Seconds(1));  // for last messages on their way
  if (http != nullptr) http->Drain(absl::Seconds(1));
  TANDEM_LOG(kInfo) << LogFields("stopped")
                           .Add("waiting_ended", tandem::process::DrainEndName(end))
                           .Add("requests_ended", rest);
}

absl::Status Serve(const Flags& flags) {
  tandem::security::TakeOverGrpcLog();
  auto starting = std::make_unique<tandem::process::ExitOnStopSignal>();
  TANDEM_RETURN_IF_ERROR(flags.server.CheckPortsAndFiles(flags.http.Addresses()));
  TANDEM_RETURN_IF_ERROR(flags.http.CheckFiles());
  Options options = flags.options;
  options.browser_guard = flags.http.Guard();
  TANDEM_ASSIGN_OR_RETURN(options.tokenizer_directory,
                          tandem::hub::LocalDirectory("--tokenizer", options.tokenizer_directory,
                                                      tandem::hub::Need::kTokenizer));
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
  ServerHostOptions host_options = flags.server.HostOptions();
  host_options.health_names = {"tandem.v1.Generation"};
  host_options.metrics = [&orchestrator = *orchestrator] { return orchestrator.MetricsText(); };
  host_options.services = {orchestrator->grpc_service()};
  host_options.max_message_bytes = tandem::orchestrator::kMaxGrpcMessageBytes;
  TANDEM_ASSIGN_OR_RETURN(auto host, ServerHost::Start(host_options));
  TANDEM_ASSIGN_OR_RETURN(
      const std::unique_ptr<tandem::http::Port> http,
      flags.http.Start(flags.server, options.loop.abort_after, orchestrator->http_handler()));
  LogStart(flags, options, *host, tracing->Describe());
  if (!options.token_file.empty() && !host_options.tls.enabled()) {
    TANDEM_LOG(kWarning)
        << LogFields("tokens_in_plaintext").Add("hint", "give --tls-certificate and --tls-key");
  }
  TANDEM_RETURN_IF_ERROR(tandem::process::WritePortFile(flags.server.port_file, host->port()));
  ServeUntilSignal(*orchestrator, *host, http.get());
  Drain(flags, *orchestrator, *host, http.get());
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  return tandem::process::RunService(
      argc, argv,
      {.name = "tandem-orchestrator",
       .summary = "Serves requests for text with draft and target services.",
       .arguments = "--target=HOST:PORT[,HOST:PORT...] --tokenizer=MODEL [flags]",
       .add_flags = [&flags](tandem::flags::FlagSet& set) { flags.AddTo(set); },
       .check = [&flags] { return flags.Validate(); },
       .serve = [&flags] { return Serve(flags); }});
}
