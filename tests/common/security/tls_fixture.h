// A service behind TLS and tokens, and calls to it.
#pragma once

#include <grpcpp/channel.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/security/bearer_tokens.h"
#include "common/security/caller_check.h"
#include "common/security/tls_credentials.h"
#include "common/transport/channel.h"
#include "common/transport/server_host.h"
#include "tandem/internal/v1/target.grpc.pb.h"
#include "tests/common/security/authority.h"
#include "tests/common/transport/echo.h"
#include "tests/common/transport/watchdog.h"
#include "tests/support/log_lines.h"
#include "tests/support/wait.h"

namespace tandem::security {

using tandem::testing::LogLine;
using tandem::testing::WaitUntil;

// Verify answers each message with an empty one; Describe says whose certificate the client showed.
// Both are for those alone who have one of the `tokens`, if there are any.
class TalkService final : public internal::v1::Target::CallbackService {
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

  class Talk final : public transport::StreamHandler<internal::v1::TargetRequest> {
   public:
    explicit Talk(std::shared_ptr<transport::Sink<internal::v1::TargetReply>> sink)
        : sink_(std::move(sink)) {}
    void OnMessage(internal::v1::TargetRequest) override { sink_->Send({}); }
    void OnHalfClose() override { sink_->Close(absl::OkStatus()); }
    void OnDone(absl::Status) override {}

   private:
    const std::shared_ptr<transport::Sink<internal::v1::TargetReply>> sink_;
  };

  grpc::ServerBidiReactor<internal::v1::TargetRequest, internal::v1::TargetReply>* Verify(
      grpc::CallbackServerContext* context) override {
    return transport::ServeBidi<internal::v1::TargetRequest, internal::v1::TargetReply>(
        context, {},
        [caller = CheckCaller(*context, "Verify", Tokens())](
            std::shared_ptr<transport::Sink<internal::v1::TargetReply>> sink) {
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
    reactor->Finish(transport::ToGrpc(CheckCaller(*context, "Describe", Tokens())));
    return reactor;
  }

  concurrency::Mutex mutex_;
};

// One stream, a message at a time.
class Stream {
 public:
  explicit Stream(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(internal::v1::Target::NewStub(channel)), reader_(stub_->Verify(&context_)) {}
  bool RoundTrip() {
    internal::v1::TargetReply reply;
    return reader_->Write({}) && reader_->Read(&reply);
  }
  grpc::Status End() {
    reader_->WritesDone();
    internal::v1::TargetReply reply;
    while (reader_->Read(&reply)) {
    }
    return reader_->Finish();
  }

 private:
  std::unique_ptr<internal::v1::Target::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<internal::v1::TargetRequest, internal::v1::TargetReply>>
      reader_;
};

struct Answer {
  grpc::Status status;
  std::string client;  // whom the server took the caller for
};

inline Answer Call(const std::shared_ptr<grpc::Channel>& channel, bool wait = false) {
  grpc::ClientContext context;
  context.set_wait_for_ready(wait);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1::DescribeReply reply;
  const grpc::Status status =
      internal::v1::Target::NewStub(channel)->Describe(&context, {}, &reply);
  return {status, reply.welcome().instance_id()};
}

inline Answer CallWhenReady(const std::shared_ptr<grpc::Channel>& channel) {
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
    auto host = transport::ServerHost::Start({.listen_address = "127.0.0.1:0",
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
    const auto security = transport::MakeChannelSecurity(tls, token_file);
    EXPECT_TRUE(security.ok()) << security.status();
    return transport::MakeChannel(Address(), *security);
  }

  // Ends the server and starts another one on the same port.
  void LoseConnections() {
    const std::string address = Address();
    host_ = nullptr;
    ASSERT_TRUE(WaitUntil([&] {
      auto host = transport::ServerHost::Start({.listen_address = address,
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

  const transport::Watchdog watchdog_{absl::Seconds(90)};
  const tandem::testing::LogRecorder log_;
  const Authority ca_{"right authority"};
  const Authority other_ca_{"other authority"};
  const ScratchFolder folder_;
  TalkService service_;
  std::unique_ptr<transport::ServerHost> host_;
};

}  // namespace tandem::security
