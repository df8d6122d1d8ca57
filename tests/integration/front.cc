#include "tests/integration/front.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/transport/channel.h"
#include "tests/support/wait.h"

namespace tandem::testing {

orchestrator::Options FrontOptions(const InProcessCluster& cluster) {
  orchestrator::Options options;
  options.target_addresses = {absl::StrCat("127.0.0.1:", cluster.target_port())};
  options.draft_addresses = {absl::StrCat("127.0.0.1:", cluster.draft_port())};
  options.tokenizer = cluster.shared_tokenizer();
  return options;
}

Front::Front(orchestrator::Options options) {
  auto orchestrator = orchestrator::Orchestrator::Create(std::move(options));
  TANDEM_CHECK_OK(orchestrator);
  orchestrator_ = *std::move(orchestrator);
  transport::ServerHostOptions host_options;
  host_options.listen_address = "127.0.0.1:0";
  host_options.services = {orchestrator_->grpc_service()};
  host_options.max_message_bytes = orchestrator::kMaxGrpcMessageBytes;
  auto host = transport::ServerHost::Start(std::move(host_options));
  TANDEM_CHECK_OK(host);
  host_ = *std::move(host);
  host_->SetReady(true);
  const bool ready = WaitUntil([&] { return orchestrator_->Ready().ok(); });
  TANDEM_CHECK(ready) << orchestrator_->Ready();
  channel_ = transport::MakeChannel(address());
}

Front::~Front() {
  orchestrator_->Drain(absl::ZeroDuration());
  host_ = nullptr;  // before what it serves
}

std::string Front::address() const { return absl::StrCat("127.0.0.1:", host_->port()); }

}  // namespace tandem::testing
