// Who may connect, what is said of those who may not, and certificates that are replaced under load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <optional>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "common/rpc/bearer_tokens.h"
#include "common/rpc/caller_check.h"
#include "common/rpc/channel.h"
#include "common/rpc/server_host.h"
#include "common/rpc/tls_credentials.h"
#include "tandem/v1/target.grpc.pb.h"
#include "tests/common/rpc/authority.h"
#include "tests/common/rpc/echo.h"
#include "tests/common/rpc/watchdog.h"
#include "tests/support/log_lines.h"
#include "tests/support/wait.h"

namespace tandem::rpc {
namespace {

using tandem::testing::LogLine;
using tandem::testing::WaitUntil;
using ::testing::HasSubstr;

// Verify answers each message with an empty one; Describe says whose certificate the client showed. Both
// are for those alone who have one of the `tokens`, if there are any.
class TalkService final : public v1::Target::CallbackService {
 public:
  ~TalkService() override {
    concurrency::MutexLock lock(mutex_);  // ThreadSanitizer does not see how gRPC orders this
  }

  std::unique_ptr<BearerTokens> tokens;

 private:
  BearerTokens* Tokens() {
    concurrency::MutexLock lock(mutex_);
    return tokens.get();
  }

  class Talk final : public StreamHandler<v1::TargetRequest> {
   public:
    explicit Talk(std::shared_ptr<Sink<v1::TargetReply>> sink) : sink_(std::move(sink)) {}
    void OnMessage(v1::TargetRequest) override { sink_->Send({}); }
    void OnHalfClose() override { sink_->Close(absl::OkStatus()); }
    void OnDone(absl::Status) override {}

   private:
    const std::shared_ptr<Sink<v1::TargetReply>> sink_;
  };

  grpc::ServerBidiReactor<v1::TargetRequest, v1::TargetReply>* Verify(
      grpc::CallbackServerContext* context) override {
    return ServeBidi<v1::TargetRequest, v1::TargetReply>(
        context, {},
        [caller = CheckCaller(*context, "Verify", Tokens())](
            std::shared_ptr<Sink<v1::TargetReply>> sink) {
          if (!caller.ok()) sink->Close(caller);
          return std::make_unique<Talk>(std::move(sink));
        });
  }

  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest*,
                                     v1::DescribeReply* reply) override {
    const auto names = context->auth_context()->FindPropertyValues("x509_common_name");
    if (!names.empty()) {
      reply->mutable_welcome()->set_instance_id(std::string(names[0].data(), names[0].size()));
    }
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(CheckCaller(*context, "Describe", Tokens())));
    return reactor;
  }

  concurrency::Mutex mutex_;
};

// One stream, a message at a time.
class Stream {
 public:
  explicit Stream(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::Target::NewStub(channel)), reader_(stub_->Verify(&context_)) {}
  bool RoundTrip() {
    v1::TargetReply reply;
    return reader_->Write({}) && reader_->Read(&reply);
  }
  grpc::Status End() {
    reader_->WritesDone();
    v1::TargetReply reply;
    while (reader_->Read(&reply)) {
    }
    return reader_->Finish();
  }

 private:
  std::unique_ptr<v1::Target::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::TargetRequest, v1::TargetReply>> reader_;
};

struct Answer {
  grpc::Status status;
  std::string client;  // whom the server took the caller for
};

Answer Call(const std::shared_ptr<grpc::Channel>& channel, bool wait = false) {
  grpc::ClientContext context;
  context.set_wait_for_ready(wait);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1::DescribeReply reply;
  const grpc::Status status = v1::Target::NewStub(channel)->Describe(&context, {}, &reply);
  return {status, reply.welcome().instance_id()};
}

Answer CallWhenReady(const std::shared_ptr<grpc::Channel>& channel) {
  return Call(channel, /*wait=*/true);
}

class TlsTest : public ::testing::Test {
 protected:
  // Files of the right authority: server.*, client.*, ca.pem.
  TlsTest() {
    Put("server", ca_.Sign({.name = "first"}));
    Put("client", ca_.Sign({.name = "caller"}));
    folder_.Put("ca.pem", ca_.certificate());
  }

  void Put(const std::string& name, const PemPair& pair) const {
    folder_.Put(name + ".key", pair.key);
    folder_.Put(name + ".pem", pair.certificate);
  }

  TlsServerOptions ServerFiles(bool mutual = false) const {
    TlsServerOptions options{folder_.Path("server.pem"), folder_.Path("server.key"), ""};
    if (mutual) options.client_ca = folder_.Path("ca.pem");
    return options;
  }
  TlsClientOptions ClientFiles(const std::string& certificate = "") const {
    TlsClientOptions options;
    options.ca = folder_.Path("ca.pem");
    if (!certificate.empty()) {
      options.certificate = folder_.Path(certificate + ".pem");
      options.key = folder_.Path(certificate + ".key");
    }
    return options;
  }

  void Serve(const TlsServerOptions& tls) {
    auto host = ServerHost::Start({.listen_address = "127.0.0.1:0",
                                   .tls = tls,
                                   .admin_address = "127.0.0.1:0",
                                   .services = {&service_}});
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }

  std::string Address() const { return "127.0.0.1:" + std::to_string(host_->port()); }

  // A connection of its own.
  std::shared_ptr<grpc::Channel> Connect(const TlsClientOptions& tls,
                                         const std::string& token_file = "") const {
    const auto security = MakeChannelSecurity(tls, token_file);
    EXPECT_TRUE(security.ok()) << security.status();
    return MakeChannel(Address(), *security);
  }

  // Ends the server and starts another one on the same port.
  void LoseConnections() {
    const std::string address = Address();
    host_ = nullptr;
    ASSERT_TRUE(WaitUntil([&] {
      auto host = ServerHost::Start({.listen_address = address,
                                     .tls = ServerFiles(/*mutual=*/true),
                                     .services = {&service_}});
      if (host.ok()) host_ = *std::move(host);
      return host_ != nullptr;
    }));
  }

  // Whether a line of this event has all of `parts`.
  bool Logged(absl::string_view event, const std::vector<std::string>& parts) const {
    for (const LogLine& line : log_.Of(event)) {
      bool all = true;
      for (const std::string& part : parts) all = all && absl::StrContains(line.text, part);
      if (all) return true;
    }
    return false;
  }
  std::string Log() const {
    std::string all;
    for (const std::string& text : log_.Texts()) all += text + "\n";
    return all;
  }

  // None of the keys' contents was ever logged.
  void TearDown() override {
    EXPECT_FALSE(absl::StrContains(Log(), "PRIVATE KEY"));
    host_ = nullptr;
  }

  const Watchdog watchdog_{absl::Seconds(90)};
  const tandem::testing::LogRecorder log_;
  const Authority ca_{"right authority"};
  const Authority other_ca_{"other authority"};
  const ScratchFolder folder_;
  TalkService service_;
  std::unique_ptr<ServerHost> host_;
};

TEST_F(TlsTest, PlaintextIsTheDefaultAndSaysSo) {
  Serve({});
  EXPECT_TRUE(Call(MakeChannel(Address())).status.ok());
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
  EXPECT_EQ(Call(MakeChannel(admin)).status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(TlsTest, PlaintextIsRefused) {
  Serve(ServerFiles());
  EXPECT_EQ(Call(MakeChannel(Address())).status.error_code(), grpc::StatusCode::UNAVAILABLE);
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

// A peer that was found by its name has an address for its channel, and its name for the certificate.
TEST_F(TlsTest, AnAddressIsTrustedByTheNameItWasFoundBy) {
  Put("server", ca_.Sign({.names = "DNS:tandem-target,DNS:*.targets.test,IP:10.0.0.7,IP:fd00::7"}));
  Serve(ServerFiles());
  const auto trusts = [&](const std::string& name) {
    TlsClientOptions tls = ClientFiles();
    auto security = MakeChannelSecurity(tls);
    EXPECT_TRUE(security.ok()) << security.status();
    security->server_name = name;  // as who found it does, for each channel its own
    return Call(MakeChannel(Address(), *security)).status.ok();
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

TEST_F(TlsTest, ReplacedUnderLoadWithoutAFailedCall) {
  Serve(ServerFiles(/*mutual=*/true));
  const auto standing = Connect(ClientFiles("client"));
  std::atomic<bool> over = false;
  std::atomic<int> calls = 0, messages = 0, failures = 0;
  std::vector<std::thread> load;
  load.emplace_back([&] {  // one stream all the time
    Stream stream(standing);
    while (!over) stream.RoundTrip() ? ++messages : ++failures;
    if (!stream.End().ok()) ++failures;
  });
  load.emplace_back([&] {  // calls on a connection that stands
    while (!over) Call(standing).status.ok() ? ++calls : ++failures;
  });
  load.emplace_back([&] {  // and each on a connection of its own
    while (!over) Call(Connect(ClientFiles("client"))).status.ok() ? ++calls : ++failures;
  });
  for (int i = 0; i < 10; ++i) {
    const int before = calls;
    // Key and certificate one after the other: what lies between is a pair that does not fit.
    Put("server", ca_.Sign({.name = "generation " + std::to_string(i)}));
    EXPECT_TRUE(WaitUntil([&] {
      return calls > before + 20 &&
             Logged("certificate_replaced", {"generation " + std::to_string(i)});
    })) << Log();
  }
  over = true;
  for (std::thread& thread : load) thread.join();
  EXPECT_EQ(failures, 0) << Log();
  EXPECT_GT(messages, 100);
}

TEST_F(TlsTest, AReplacedClientCaIsInForceForNewConnections) {
  Serve(ServerFiles(/*mutual=*/true));
  const auto standing = Connect(ClientFiles("client"));
  EXPECT_EQ(Call(standing).client, "caller");
  // The server's own certificate stays; the clients' authority is another one now.
  const std::string own = folder_.Put("own.pem", ca_.certificate());
  folder_.Put("ca.pem", other_ca_.certificate());
  TlsClientOptions tls = ClientFiles("client");
  tls.ca = own;
  EXPECT_FALSE(Call(Connect(tls)).status.ok());
  Put("client", other_ca_.Sign({.name = "new caller"}));
  EXPECT_EQ(Call(Connect(tls)).client, "new caller");
  EXPECT_EQ(Call(standing).client, "caller");  // a connection that stands is not asked again
}

TEST_F(TlsTest, AClientsReplacedCertificateIsShownAtItsNextConnection) {
  Serve(ServerFiles(/*mutual=*/true));
  const auto channel = Connect(ClientFiles("client"));
  EXPECT_EQ(Call(channel).client, "caller");
  Put("client", ca_.Sign({.name = "renewed"}));
  EXPECT_TRUE(WaitUntil([&] {
    LoseConnections();
    return CallWhenReady(channel).client == "renewed";
  }));
}

TEST_F(TlsTest, AClientsHalfReplacementIsKeptOut) {
  Serve(ServerFiles(/*mutual=*/true));
  const auto channel = Connect(ClientFiles("client"));
  EXPECT_EQ(Call(channel).client, "caller");
  const PemPair next = ca_.Sign({.name = "renewed"});
  folder_.Put("client.key", next.key);
  ASSERT_TRUE(WaitUntil([&] {
    return Logged("certificate_kept", {"client.key", "CN=caller"});
  })) << Log();
  // Longer than gRPC's watcher looks away: it would have taken the pair that does not fit by now.
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  LoseConnections();
  const Answer answer = CallWhenReady(channel);
  EXPECT_EQ(answer.client, "caller") << answer.status.error_message() << "\n" << Log();
  // The negative control: the other half is taken.
  folder_.Put("client.pem", next.certificate);
  EXPECT_TRUE(WaitUntil([&] {
    LoseConnections();
    return CallWhenReady(channel).client == "renewed";
  }));
}

TEST_F(TlsTest, WhatIsWrongAfterwardsIsKeptOutAndSaidOnce) {
  Serve(ServerFiles());
  folder_.Put("server.pem", "half a fi");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Call(Connect(ClientFiles())).status.ok());
  // Of this folder: files of earlier tests are gone, which their copies' watcher says, too.
  size_t said = 0;
  for (const LogLine& line : log_.Of("certificate_kept")) {
    said += absl::StrContains(line.text, folder_.Path("")) ? 1 : 0;
  }
  EXPECT_EQ(said, 1u) << Log();
  EXPECT_TRUE(Logged("certificate_kept", {"server.pem", "has no certificate"})) << Log();
  std::filesystem::remove(folder_.Path("server.pem"));
  EXPECT_TRUE(Call(Connect(ClientFiles())).status.ok());
  EXPECT_TRUE(Logged("certificate_kept", {"server.pem", "No such file"})) << Log();
  // The negative control: what is right afterwards is taken.
  Put("server", ca_.Sign({.name = "second"}));
  EXPECT_TRUE(Call(Connect(ClientFiles())).status.ok());
  EXPECT_TRUE(Logged("certificate_replaced", {"second"})) << Log();
}

TEST_F(TlsTest, ABadFileAtTheStartIsNamed) {
  const auto problem = [&](const TlsServerOptions& tls) {
    const absl::Status status =
        ServerHost::Start({.listen_address = "127.0.0.1:0", .tls = tls}).status();
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
  bad.client_ca = folder_.Put("empty.pem", "");
  EXPECT_EQ(problem(bad), "TLS CA " + bad.client_ca + ": is empty");
  bad = good;
  bad.client_ca = "/";
  EXPECT_EQ(problem(bad), "TLS CA /: is no regular file");
  bad = good;
  bad.key = "";
  EXPECT_THAT(problem(bad), HasSubstr("needs its key"));
  for (const long to : {-60L, 3600L}) {
    Put("period", ca_.Sign({.from_s = to < 0 ? -7200 : 1800, .to_s = to}));
    bad.certificate = folder_.Path("period.pem");
    bad.key = folder_.Path("period.key");
    EXPECT_THAT(problem(bad),
                HasSubstr(bad.certificate + (to < 0 ? ": expired at " : ": is not valid before ")));
  }
  EXPECT_TRUE(ServerHost::Start({.listen_address = "127.0.0.1:0", .tls = good}).ok());
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

constexpr char kToken[] = "right-0123456789abcdef";
constexpr char kOther[] = "other-0123456789abcdef";

class TokenTest : public TlsTest {
 protected:
  void SetUp() override {
    auto tokens = BearerTokens::Load(folder_.Put("tokens", kToken));
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    service_.tokens = *std::move(tokens);
    Serve(ServerFiles());
  }
  // Secrets are in no line of the log.
  void TearDown() override {
    EXPECT_FALSE(absl::StrContains(Log(), "0123456789abcdef")) << Log();
    TlsTest::TearDown();
  }
  // A channel that sends this one.
  std::shared_ptr<grpc::Channel> With(const std::string& token) const {
    return Connect(ClientFiles(), folder_.Put("mine", token));
  }
};

TEST_F(TokenTest, TheRightOneCallsBothKinds) {
  const auto channel = With(kToken);
  EXPECT_TRUE(Call(channel).status.ok());
  Stream stream(channel);
  EXPECT_TRUE(stream.RoundTrip());
  EXPECT_TRUE(stream.End().ok());
  EXPECT_TRUE(log_.Of("unauthenticated").empty());
}

TEST_F(TokenTest, NoneIsRefusedAndSaidWhy) {
  const auto channel = Connect(ClientFiles());
  const grpc::Status status = Call(channel).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(status.error_message(),
            "no token: the metadata 'authorization' must be 'Bearer TOKEN'");
  Stream stream(channel);
  EXPECT_FALSE(stream.RoundTrip());
  EXPECT_EQ(stream.End().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(Logged("unauthenticated", {"method=Describe", "peer=ipv4:127.0.0.1", "no token"}));
  EXPECT_TRUE(Logged("unauthenticated", {"method=Verify", "no token"})) << Log();
}

TEST_F(TokenTest, AWrongOneIsRefusedAndNotRepeated) {
  const grpc::Status status = Call(With(kOther)).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(status.error_message(), "the token in 'authorization' is not known here");
  EXPECT_TRUE(Logged("unauthenticated", {"not known here"})) << Log();
}

TEST_F(TokenTest, AChannelThatStandsSendsTheReplacedOne) {
  const auto channel = With(kToken);
  EXPECT_TRUE(Call(channel).status.ok());
  folder_.Put("tokens", kOther);
  EXPECT_EQ(Call(channel).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  folder_.Put("mine", kOther);
  EXPECT_TRUE(Call(channel).status.ok());
}

// A rotation as it is meant: both for a while, then the new one alone.
TEST_F(TokenTest, ReplacedUnderLoadWithoutAFailedCall) {
  std::atomic<bool> over = false;
  std::atomic<int> calls = 0, streams = 0, messages = 0, failures = 0;
  const auto old_channel = Connect(ClientFiles(), folder_.Put("old", kToken));
  const auto new_channel = Connect(ClientFiles(), folder_.Put("new", kOther));
  std::atomic<bool> rotated = false;
  std::vector<std::thread> load;
  load.emplace_back([&] {  // begun with the old token; a call that runs is not asked again
    Stream stream(old_channel);
    while (!over) stream.RoundTrip() ? ++messages : ++failures;
    if (!stream.End().ok()) ++failures;
  });
  load.emplace_back([&] {
    while (!over) Call(rotated ? new_channel : old_channel).status.ok() ? ++calls : ++failures;
  });
  load.emplace_back([&] {  // short streams
    while (!over) {
      Stream stream(rotated ? new_channel : old_channel);
      stream.RoundTrip() && stream.End().ok() ? ++streams : ++failures;
    }
  });
  const auto go_on = [&] {
    const int calls_before = calls, streams_before = streams;
    EXPECT_TRUE(
        WaitUntil([&] { return calls > calls_before + 10 && streams > streams_before + 10; }));
  };
  go_on();
  folder_.Put("tokens", std::string(kToken) + "\n" + kOther);
  go_on();
  rotated = true;
  go_on();  // who was about to send the old one did
  folder_.Put("tokens", kOther);
  go_on();
  over = true;
  for (std::thread& thread : load) thread.join();
  EXPECT_EQ(failures, 0) << Log();
  EXPECT_GT(messages, 20);
  // The negative control: the old one is out.
  EXPECT_EQ(Call(old_channel).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(Call(new_channel).status.ok());
}

}  // namespace
}  // namespace tandem::rpc
