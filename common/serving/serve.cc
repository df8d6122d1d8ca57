#include "common/serving/serve.h"

#include <cstddef>
#include <memory>

#include "absl/time/time.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/process/process.h"
#include "common/transport/server_host.h"

namespace tandem::serving {
namespace {

using base::LogFields;
using transport::ServerHost;
using transport::ServerHostOptions;

void Drain(Service& service, ServerHost& host, absl::Duration grace) {
  TANDEM_LOG(kInfo)
      << LogFields("draining").Add("sequences", service.active_sequences()).Add("grace", grace);
  host.SetReady(false);
  service.Drain();
  const process::DrainEnd end =
      process::WaitUntilDrained([&service] { return service.open_sequences() == 0; }, grace);
  const size_t rest = service.open_sequences();
  host.Refuse();
  service.End();
  host.Drain(absl::Seconds(1));  // for last messages on their way
  TANDEM_LOG(kInfo) << LogFields("stopped")
                           .Add("waiting_ended", process::DrainEndName(end))
                           .Add("sequences_ended", rest);
}

// Its clients have been told already. What waits for the device may wait for ever.
absl::Status EndFailed(Service& service, ServerHost& host, const absl::Status& failure) {
  constexpr unsigned kSeconds = 10;
  process::EndWithin(kSeconds);
  host.SetReady(false);
  service.End();
  host.Drain(absl::Seconds(1));
  return failure;
}

}  // namespace

absl::Status Serve(Service& service, const std::string& name, const transport::ServerFlags& flags,
                   absl::FunctionRef<void()> log_start) {
  ServerHostOptions options = flags.HostOptions();
  options.health_names = {name};
  options.metrics = [&service] { return service.MetricsText(); };
  options.services = {service.grpc_service()};
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<ServerHost> host, ServerHost::Start(options));
  log_start();
  host->SetReady(true);
  LogFields ready("ready");
  ready.Add("port", host->port());
  if (host->admin_port() != 0) ready.Add("admin_port", host->admin_port());
  TANDEM_LOG(kInfo) << ready;
  TANDEM_RETURN_IF_ERROR(process::WritePortFile(flags.port_file, host->port()));
  process::WatchUntilStopSignal([&service] { return service.busy_for(); },
                                [&host](bool alive) { host->SetAlive(alive); },
                                [&service] { return !service.failure().ok(); });
  if (const absl::Status failure = service.failure(); !failure.ok()) {
    return EndFailed(service, *host, failure);
  }
  Drain(service, *host, flags.grace);
  return absl::OkStatus();
}

}  // namespace tandem::serving
