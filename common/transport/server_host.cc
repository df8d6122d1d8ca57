#include "common/transport/server_host.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_posix.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/admin/admin_port.h"
#include "common/base/address.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/security/certificate_expiry.h"
#include "common/security/tls_credentials.h"
#include "common/transport/channel.h"
#include "common/transport/idle_guard.h"

namespace tandem::transport {
namespace {

constexpr char kLiveness[] = "liveness";

// With Tandem's settings; where it listens is up to the caller.
void Prepare(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(messages::kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
}

absl::StatusOr<std::unique_ptr<grpc::Server>> Listen(const std::string& address,
                                                     const security::TlsServerOptions& tls,
                                                     const std::vector<grpc::Service*>& services,
                                                     int* port) {
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<grpc::ServerCredentials> credentials,
                          security::MakeServerCredentials(tls));
  grpc::ServerBuilder builder;
  Prepare(builder);
  int bound = 0;
  builder.AddListeningPort(address, credentials, &bound);
  // Two servers on one port would share its connections by chance.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || bound == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address,
                     ": the port is taken, or the address is not one of this machine's"));
  }
  *port = bound;
  return server;
}

}  // namespace

absl::Status ServerHostOptions::Validate() const {
  std::vector<std::string> problems;
  const auto check = [&problems](const absl::Status& status) {
    if (!status.ok()) problems.emplace_back(status.message());
  };
  using base::AddressUse;
  using base::ParseAddress;
  check(ParseAddress("--listen", listen_address, AddressUse::kListen).status());
  if (!admin_address.empty()) {
    check(ParseAddress("--admin-listen", admin_address, AddressUse::kListen).status());
  }
  check(tls.Validate());
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(problems, "; "));
}

absl::StatusOr<std::unique_ptr<ServerHost>> ServerHost::Start(ServerHostOptions options) {
  TANDEM_RETURN_IF_ERROR(options.Validate());
  base::Address admin_address;
  if (!options.admin_address.empty()) {
    TANDEM_ASSIGN_OR_RETURN(
        admin_address,
        base::ParseAddress("--admin-listen", options.admin_address, base::AddressUse::kListen));
  }
  grpc::EnableDefaultHealthCheckService(true);
  if (options.reflection) grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  std::unique_ptr<ServerHost> host(new ServerHost(std::move(options)));
  auto server = Listen(host->options_.listen_address, host->options_.tls, host->options_.services,
                       &host->port_);
  if (!server.ok()) return server.status();
  host->main_ = *std::move(server);
  TANDEM_LOG(kInfo) << base::LogFields("transport")
                           .Add("port", host->port_)
                           .Add("encryption", host->options_.tls.Describe());
  if (!host->options_.admin_address.empty()) {
    // It listens nowhere: the port hands it the connections that are its own.
    grpc::ServerBuilder builder;
    Prepare(builder);
    host->admin_ = builder.BuildAndStart();
    TANDEM_CHECK(host->admin_ != nullptr) << "a server without a port cannot fail to start";
    grpc::Server* const admin = host->admin_.get();
    std::function<std::string()> metrics;
    if (host->options_.metrics) {
      metrics = [service = host->options_.metrics] {
        return security::CertificateExpiry::Get().MetricsText() + service();
      };
    }
    TANDEM_ASSIGN_OR_RETURN(
        host->admin_entry_,
        admin::AdminPort::Start(
            {.address = std::move(admin_address),
             .metrics = std::move(metrics),
             .http2 = [admin](int socket) { grpc::AddInsecureChannelFromFd(admin, socket); }}));
    host->admin_port_ = host->admin_entry_->port();
  }
  host->SetAlive(true);
  host->SetReady(false);
  return host;
}

ServerHost::ServerHost(ServerHostOptions options)
    : options_(std::move(options)), guard_(IdleGuard::Get()) {}

ServerHost::~ServerHost() { Drain(absl::ZeroDuration()); }

void ServerHost::SetHealth(const std::string& name, bool serving) {
  for (grpc::Server* server : {main_.get(), admin_.get()}) {
    if (server != nullptr) server->GetHealthCheckService()->SetServingStatus(name, serving);
  }
}

void ServerHost::SetReady(bool ready) {
  SetHealth("", ready);
  for (const std::string& name : options_.health_names) SetHealth(name, ready);
}

void ServerHost::SetAlive(bool alive) { SetHealth(kLiveness, alive); }

void ServerHost::Refuse() {
  concurrency::MutexLock lock(drain_mutex_);
  if (!drained_ && main_ != nullptr) RefuseLocked();
}

// gRPC's Shutdown returns when the last call has ended, and its deadline cannot be moved: calls
// that nobody waits for, a Watch of health, would hold it up until then.
void ServerHost::RefuseLocked() {
  if (shutdown_.joinable()) return;
  SetReady(false);
  shutdown_ = std::thread([this] {
    main_->Shutdown();
    concurrency::MutexLock lock(gone_mutex_);
    gone_ = true;
    all_gone_.NotifyAll();
  });
}

void ServerHost::Drain(absl::Duration grace) {
  concurrency::MutexLock lock(drain_mutex_);
  if (drained_ || main_ == nullptr) return;
  drained_ = true;
  RefuseLocked();
  {
    concurrency::MutexLock gone_lock(gone_mutex_);
    const absl::Time end = absl::Now() + grace;
    while (!gone_ && absl::Now() < end) all_gone_.WaitFor(gone_mutex_, end - absl::Now());
    // Again and again: a call that was just about to begin is none that can be cancelled.
    while (!gone_) {
      grpc_server_cancel_all_calls(main_->c_server());
      all_gone_.WaitFor(gone_mutex_, absl::Milliseconds(20));
    }
  }
  shutdown_.join();
  admin_entry_ = nullptr;  // before the server that it hands connections to
  if (admin_ != nullptr) admin_->Shutdown(absl::ToChronoTime(absl::Now()));
}

std::shared_ptr<grpc::Channel> ServerHost::InProcessChannel() {
  return KeptAwake(main_->InProcessChannel(ChannelSettings()));
}

}  // namespace tandem::transport
