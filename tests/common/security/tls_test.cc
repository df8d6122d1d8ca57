// Who may connect, and what is said of those who may not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/security/tls_fixture.h"

namespace tandem::security {
namespace {

using ::testing::HasSubstr;

TEST_F(TlsTest, PlaintextIsTheDefaultAndSaysSo) {
  Serve({});
  EXPECT_TRUE(Call(transport::MakeChannel(Address())).status.ok());
  EXPECT_TRUE(Logged("transport", {"encryption=plaintext"})) << Log();
}

TEST_F(TlsTest, ServesWhoTrustsIt) {
  Serve(ServerFiles());
  const Answer answer = Call(Connect(ClientFiles()));
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.client, "");
  EXPECT_TRUE(Logged("transport", {"encryption=tls"})) << Log();
}

TEST_F(TlsTest, KnowsAClientByItsCertificate) {
  Serve(ServerFiles(/*mutual=*/true));
  const Answer answer = Call(Connect(ClientFiles("client")));
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.client, "caller");
  EXPECT_TRUE(Logged("transport", {"encryption=\"mutual tls\""})) << Log();
}

TEST_F(TlsTest, TheAdminPortStaysPlaintext) {
  Serve(ServerFiles(/*mutual=*/true));
  const std::string admin = "127.0.0.1:" + std::to_string(host_->admin_port());
  EXPECT_EQ(Call(transport::MakeChannel(admin)).status.error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(TlsTest, PlaintextIsRefused) {
  Serve(ServerFiles());
  EXPECT_EQ(Call(transport::MakeChannel(Address())).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(WaitUntil([&] { return !log_.Of("handshake_failed").empty(); }, absl::Seconds(10)))
      << Log();
}

TEST_F(TlsTest, AClientWithoutACertificateIsRefused) {
  Serve(ServerFiles(/*mutual=*/true));
  EXPECT_EQ(Call(Connect(ClientFiles())).status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(
      WaitUntil([&] { return Logged("handshake_failed", {"did not return a certificate"}); },
                absl::Seconds(10)))
      << Log();
}

TEST_F(TlsTest, AClientOfAnotherAuthorityIsRefused) {
  Serve(ServerFiles(/*mutual=*/true));
  Put("stranger", other_ca_.Sign({.name = "stranger"}));
  EXPECT_EQ(Call(Connect(ClientFiles("stranger"))).status.error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(WaitUntil([&] { return Logged("handshake_failed", {"certificate verify failed"}); },
                        absl::Seconds(10)))
      << Log();
}

// Our own start refuses it, so gRPC's credentials are made here without us.
TEST_F(TlsTest, AClientWhoseCertificateExpiredIsRefused) {
  Serve(ServerFiles(/*mutual=*/true));
  const PemPair old = ca_.Sign({.name = "old", .from_s = -7200, .to_s = -3600});
  const auto channel = grpc::CreateChannel(
      Address(), grpc::SslCredentials({ca_.certificate(), old.key, old.certificate}));
  EXPECT_EQ(Call(channel).status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(WaitUntil([&] { return Logged("handshake_failed", {"certificate verify failed"}); },
                        absl::Seconds(10)))
      << Log();
  // The negative control: the same way in, but in time.
  const PemPair good = ca_.Sign({.name = "good"});
  const auto control = grpc::CreateChannel(
      Address(), grpc::SslCredentials({ca_.certificate(), good.key, good.certificate}));
  EXPECT_EQ(Call(control).client, "good");
}

TEST_F(TlsTest, AServerOfAnotherAuthorityIsNotTrusted) {
  Serve(ServerFiles());
  TlsClientOptions tls = ClientFiles();
  tls.ca = folder_.Put("other.pem", other_ca_.certificate());
  const grpc::Status status = Call(Connect(tls)).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(WaitUntil([&] { return Logged("handshake_failed", {"certificate verify failed"}); },
                        absl::Seconds(10)))
      << status.error_message() << "\n"
      << Log();
}

TEST_F(TlsTest, AServerOfAnotherNameIsNotTrusted) {
  Put("server", ca_.Sign({.names = "DNS:elsewhere.test"}));
  Serve(ServerFiles());
  const grpc::Status status = Call(Connect(ClientFiles())).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("Hostname Verification Check failed"));
  EXPECT_TRUE(WaitUntil(
      [&] {
        return Logged("handshake_failed", {"to=ipv4:127.0.0.1", "Hostname Verification"});
      },
      absl::Seconds(10)))
      << Log();
  // The negative control: asked for by its own name.
  TlsClientOptions named = ClientFiles();
  named.server_name = "elsewhere.test";
  const Answer answer = Call(Connect(named));
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
}

// A peer that was found by its name has an address for its channel, and its name for the
// certificate.
TEST_F(TlsTest, AnAddressIsTrustedByTheNameItWasFoundBy) {
  Put("server", ca_.Sign({.names = "DNS:tandem-target,DNS:*.targets.test,IP:10.0.0.7,IP:fd00::7"}));
  Serve(ServerFiles());
  const auto trusts = [&](const std::string& name) {
    TlsClientOptions tls = ClientFiles();
    auto security = transport::MakeChannelSecurity(tls);
    EXPECT_TRUE(security.ok()) << security.status();
    security->server_name = name;  // as who found it does, for each channel its own
    return Call(transport::MakeChannel(Address(), *security)).status.ok();
  };
  for (const char* name :
       {"tandem-target", "TANDEM-target", "a.targets.test", "10.0.0.7", "fd00::7"}) {
    EXPECT_TRUE(trusts(name)) << name;
  }
  for (const char* name : {"tandem-draft", "a.b.targets.test", "targets.test", "tandem-target.test",
                           "10.0.0.8", "fd00::8", "127.0.0.1", ""}) {
    EXPECT_FALSE(trusts(name)) << name;
  }
}

TEST_F(TlsTest, ABadFileAtTheStartIsNamed) {
  const auto problem = [&](const TlsServerOptions& tls) {
    const absl::Status status =
        transport::ServerHost::Start({.listen_address = "127.0.0.1:0", .tls = tls}).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  };
  const TlsServerOptions good = ServerFiles(/*mutual=*/true);
  TlsServerOptions bad = good;
  bad.certificate = folder_.Path("none.pem");
  EXPECT_EQ(problem(bad), "TLS certificate " + bad.certificate + ": No such file or directory");
  bad = good;
  bad.key = folder_.Put("other.key", ca_.Sign({}).key);
  EXPECT_EQ(problem(bad),
            "TLS key " + bad.key + ": is not the key of the certificate " + good.certificate);
  bad = good;
  bad.certificate = good.key;
  EXPECT_EQ(problem(bad), "TLS certificate " + good.key + ": has no certificate in PEM");
  bad = good;
  bad.key = good.certificate;
  EXPECT_EQ(problem(bad),
            "TLS key " + bad.key + ": has no private key in PEM that needs no password");
  bad = good;
  bad.key = "";
  EXPECT_THAT(problem(bad), HasSubstr("--tls-certificate needs --tls-key"));
  EXPECT_TRUE(transport::ServerHost::Start({.listen_address = "127.0.0.1:0", .tls = good}).ok());
}

TEST_F(TlsTest, AChannelsBadFilesAreNamed) {
  TlsClientOptions bad = ClientFiles("client");
  bad.ca = folder_.Path("none.pem");
  EXPECT_EQ(MakeChannelCredentials(bad).status().message(),
            "TLS CA " + bad.ca + ": No such file or directory");
  bad = ClientFiles("client");
  bad.key = folder_.Path("server.key");
  EXPECT_THAT(std::string(MakeChannelCredentials(bad).status().message()),
              HasSubstr("is not the key of the certificate"));
  bad = {};
  bad.server_name = "x";
  EXPECT_EQ(MakeChannelCredentials(bad).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem::security
