// Under TLS a target's certificate must be for the name in the orchestrator's flag, not for the
// address that the name resolves to: addresses are of pods, which come and go.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/transport/server_host.h"
#include "orchestrator/options.h"
#include "orchestrator/wiring.h"
#include "target_service/engine/cpu/cpu_engine.h"
#include "target_service/service.h"
#include "tests/common/security/authority.h"
#include "tests/integration/models.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

class PeerTls : public ::testing::Test {
 protected:
  PeerTls() {
    target_service::Options options;
    options.tokenizer_id = tokenizer_->content_id();
    target_service::CpuEngineOptions engine_options;
    engine_options.vocabulary_size = tokenizer_->vocabulary_size();
    auto engine = target_service::CpuEngine::Create(engine_options, LoadModel(DemoTarget(), 1));
    TANDEM_CHECK_OK(engine);
    auto service = target_service::Service::Create(std::move(options), *std::move(engine));
    TANDEM_CHECK_OK(service);
    target_ = *std::move(service);
  }

  // The target shows a certificate of these names, and is called `host` in the flag.
  std::unique_ptr<orchestrator::Orchestrator> Connect(const std::string& names,
                                                      const std::string& host,
                                                      const std::string& server_name = "") {
    const security::PemPair pair = authority_.Sign({.names = names});
    transport::ServerHostOptions server;
    server.listen_address = "127.0.0.1:0";
    server.services = {target_->grpc_service()};
    server.tls.certificate = folder_.Put("target.pem", pair.certificate);
    server.tls.key = folder_.Put("target.key", pair.key);
    host_.reset();
    auto started = transport::ServerHost::Start(std::move(server));
    TANDEM_CHECK_OK(started);
    host_ = *std::move(started);
    host_->SetReady(true);

    orchestrator::Options front;
    front.target_addresses = {absl::StrCat(host, ":", host_->port())};
    front.tokenizer = tokenizer_;
    front.peer_tls.ca = folder_.Put("ca.pem", authority_.certificate());
    front.peer_tls.server_name = server_name;
    auto orchestrator = orchestrator::Orchestrator::Create(std::move(front));
    TANDEM_CHECK_OK(orchestrator);
    return *std::move(orchestrator);
  }

  static void ExpectReady(const std::unique_ptr<orchestrator::Orchestrator>& orchestrator) {
    EXPECT_TRUE(WaitUntil([&] { return orchestrator->Ready().ok(); })) << orchestrator->Ready();
  }
  static void ExpectRefused(const std::unique_ptr<orchestrator::Orchestrator>& orchestrator) {
    // What the handshake came to, not that it has not begun.
    EXPECT_TRUE(WaitUntil([&] {
      return absl::StrContains(orchestrator->Ready().message(), "Hostname Verification");
    })) << orchestrator->Ready();
    EXPECT_FALSE(orchestrator->Ready().ok());
  }

  const security::Authority authority_{"authority"};
  const security::ScratchFolder folder_;
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_ = LoadTokenizer(DemoTarget());
  std::unique_ptr<target_service::Service> target_;
  std::unique_ptr<transport::ServerHost> host_;
};

TEST_F(PeerTls, ACertificateIsForTheName) {
  ExpectReady(Connect("DNS:localhost", "localhost"));
  ExpectRefused(Connect("IP:127.0.0.1", "localhost"));
  ExpectRefused(Connect("DNS:elsewhere", "localhost"));
}

TEST_F(PeerTls, AnAddressInTheFlagIsItsOwnName) {
  ExpectReady(Connect("IP:127.0.0.1", "127.0.0.1"));
  ExpectRefused(Connect("DNS:localhost", "127.0.0.1"));
}

TEST_F(PeerTls, TheFlagSaysAnotherName) {
  ExpectReady(Connect("DNS:tandem-target", "localhost", "tandem-target"));
  ExpectRefused(Connect("DNS:localhost", "localhost", "tandem-target"));
}

}  // namespace
}  // namespace tandem::testing
