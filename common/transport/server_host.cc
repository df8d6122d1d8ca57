#include "common/transport/server_host.h"

#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/admin/admin_port.h"
#include "common/base/address.h"
#include "common/base/check.h"
#include "common/base/listen.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/security/certificate_expiry.h"
#include "common/security/tls_credentials.h"
#include "common/transport/acceptor.h"
#include "common/transport/channel.h"
#include "common/transport/connection_limit.h"
#include "common/transport/connection_watch.h"
#include "common/transport/idle_guard.h"
#include "common/transport/port_watch.h"
#include "grpc/health/v1/health.pb.h"

namespace tandem::transport {
namespace {

constexpr char kLiveness[] = "liveness";

constexpr absl::Duration kHandshake = absl::Seconds(10);
// So long a connection may hold a thread of gRPC's.
constexpr absl::Duration kLookForFloods = absl::Milliseconds(500);
// A probe of health is over long before.
constexpr absl::Duration kAdminIdle = absl::Minutes(1);
constexpr uint32_t kAdminConnections = 128;  // of gRPC's; a probe has one

// Threads that reflection has for its calls. It is the one service that gives a call a thread.
constexpr int kReflectionThreads = 16;

int Milliseconds(absl::Duration time) { return static_cast<int>(absl::ToInt64Milliseconds(time)); }

// With Tandem's settings; where it listens is up to the caller.
void Prepare(grpc::ServerBuilder& builder, const ServerHostOptions& options,
             absl::Duration max_idle) {
  grpc::ResourceQuota quota;
  quota.Resize(size_t{options.max_network_mib} << 20);
  quota.SetMaxThreads(kReflectionThreads + 1);                   // one waits for calls
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);  // else one waits for each core
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(options.max_calls_per_connection));
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  // gRPC looks at the size of a message once it is unpacked. A thousand bytes may become a million.
  for (const grpc_compression_algorithm packed : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(packed, false);
  }
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  // Who greets and is silent from then on is found out by the pings, calls or no calls.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(kHandshake));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(max_idle));
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
  grpc::EnableDefaultHealthCheckService(true);
  if (options.reflection) {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    // Links the descriptor of gRPC's health service, which reflection lists and then looks for.
    google::protobuf::LinkMessageReflection<grpc::health::v1::HealthCheckRequest>();
  }
  std::unique_ptr<ServerHost> host(new ServerHost(std::move(options)));
  TANDEM_RETURN_IF_ERROR(host->Listen());
  TANDEM_LOG(kInfo) << base::LogFields("transport")
                           .Add("port", host->port_)
                           .Add("encryption", host->options_.tls.Describe());
  if (!host->options_.admin_address.empty()) TANDEM_RETURN_IF_ERROR(host->ListenForAdmin());
  host->SetAlive(true);
  host->SetReady(false);
  host->WatchPort();
  return host;
}

absl::Status ServerHost::Listen() {
  TANDEM_ASSIGN_OR_RETURN(
      const base::Address address,
      base::ParseAddress("--listen", options_.listen_address, base::AddressUse::kListen));
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<grpc::ServerCredentials> credentials,
                          security::MakeServerCredentials(options_.tls));
  TANDEM_ASSIGN_OR_RETURN(std::vector<base::Socket> listeners, base::Listen(address));
  grpc::ServerBuilder builder;
  Prepare(builder, options_, options_.max_connection_idle);
  using External = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> entry =
      builder.experimental().AddExternalConnectionAcceptor(External::FROM_FD, credentials);
  for (grpc::Service* service : options_.services) builder.RegisterService(service);
  main_ = builder.BuildAndStart();
  if (main_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("gRPC cannot serve on ", options_.listen_address, ": its log says why"));
  }
  concurrency::MutexLock lock(drain_mutex_);
  TANDEM_ASSIGN_OR_RETURN(
      acceptor_,
      Acceptor::Start(
          {.listeners = std::move(listeners),
           .max_connections = options_.max_connections,
           .take =
               [entry = std::move(entry), connections = connections_.get()](int socket) {
                 connections->Add(socket);
                 grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
                 connection.fd = socket;
                 entry->HandleNewConnection(&connection);
               },
           .make_room = [connections = connections_.get()] { return connections->EndSilent(); }}));
  port_ = acceptor_->port();
  return absl::OkStatus();
}

// Once both servers are there, for it tells both what it sees.
void ServerHost::WatchPort() {
  concurrency::MutexLock lock(drain_mutex_);
  watch_ = std::make_unique<PortWatch>(
      [acceptor = acceptor_.get(), patience = options_.ask_every] {
        return acceptor->Ask(patience);
      },
      [this](PortState state) { OnPort(state); }, options_.ask_every);
}

absl::Status ServerHost::ListenForAdmin() {
  TANDEM_ASSIGN_OR_RETURN(
      base::Address address,
      base::ParseAddress("--admin-listen", options_.admin_address, base::AddressUse::kListen));
  // It listens nowhere: the port hands it the connections that are its own.
  grpc::ServerBuilder builder;
  Prepare(builder, options_, kAdminIdle);
  admin_ = builder.BuildAndStart();
  TANDEM_CHECK(admin_ != nullptr) << "a server without a port cannot fail to start";
  std::function<std::string()> metrics;
  if (options_.metrics) {
    metrics = [service = options_.metrics] {
      return security::CertificateExpiry::Get().MetricsText() + service();
    };
  }
  const auto limit = std::make_shared<ConnectionLimit>(kAdminConnections, MaxDescriptors());
  TANDEM_ASSIGN_OR_RETURN(
      admin_entry_,
      admin::AdminPort::Start(
          {.address = std::move(address),
           .metrics = std::move(metrics),
           .http2 = [admin = admin_.get(), limit, connections = connections_.get()](int socket) {
             if (!limit->Admit(socket, absl::Now())) {
               const base::Socket refused(socket);  // closes it
               return;
             }
             connections->Add(socket);
             grpc::AddInsecureChannelFromFd(admin, socket);
           }}));
  admin_port_ = admin_entry_->port();
  return absl::OkStatus();
}

ServerHost::ServerHost(ServerHostOptions options)
    : options_(std::move(options)),
      guard_(IdleGuard::Get()),
      connections_(std::make_unique<ConnectionWatch>(std::min(kLookForFloods, options_.ask_every))),
      port_state_(PortState::kAdmits) {}

ServerHost::~ServerHost() { Drain(absl::ZeroDuration()); }

void ServerHost::SetHealth(const std::string& name, bool serving) {
  for (grpc::Server* server : {main_.get(), admin_.get()}) {
    if (server != nullptr) server->GetHealthCheckService()->SetServingStatus(name, serving);
  }
}

void ServerHost::SetReady(bool ready) {
  {
    concurrency::MutexLock lock(health_mutex_);
    ready_ = ready;
  }
  ShowReady();
}

void ServerHost::ShowReady() {
  concurrency::MutexLock lock(health_mutex_);
  const bool ready = ready_ && port_state_ == PortState::kAdmits;
  SetHealth("", ready);
  for (const std::string& name : options_.health_names) SetHealth(name, ready);
}

void ServerHost::SetAlive(bool alive) {
  {
    concurrency::MutexLock lock(health_mutex_);
    alive_ = alive;
  }
  ShowAlive();
}

void ServerHost::OnPort(PortState state) {
  PortState before = PortState::kAdmits;
  {
    concurrency::MutexLock lock(health_mutex_);
    before = std::exchange(port_state_, state);
  }
  if (state == PortState::kSilent) {
    TANDEM_LOG(kError) << base::LogFields("not_alive")
                              .Add("port", port_)
                              .Add("reason", "it accepts no connection");
  } else if (before == PortState::kSilent) {
    TANDEM_LOG(kInfo) << base::LogFields("alive").Add("port", port_);
  }
  if (state == PortState::kRefuses) {
    TANDEM_LOG(kWarning) << base::LogFields("port_full")
                                .Add("port", port_)
                                .Add("reason",
                                     "it refuses connections, for all are taken: not ready");
  } else if (before == PortState::kRefuses) {
    TANDEM_LOG(kInfo) << base::LogFields("port_free").Add("port", port_);
  }
  ShowAlive();
  ShowReady();
}

void ServerHost::ShowAlive() {
  concurrency::MutexLock lock(health_mutex_);
  SetHealth(kLiveness, alive_ && port_state_ != PortState::kSilent);
}

void ServerHost::Refuse() {
  concurrency::MutexLock lock(drain_mutex_);
  if (!drained_ && main_ != nullptr) RefuseLocked();
}

// gRPC's Shutdown returns when the last call has ended, and its deadline cannot be moved: calls
// that nobody waits for, a Watch of health, would hold it up until then.
void ServerHost::RefuseLocked() {
  if (shutdown_.joinable()) return;
  SetReady(false);
  watch_ = nullptr;  // before the acceptor that it asks
  acceptor_ = nullptr;
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
