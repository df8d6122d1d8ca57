// Certificates, authorities and tokens replaced under load: no request fails, and what is new is in
// force. Half of the clients are `tandem generate`, each with a connection of its own; half share a
// connection that stands.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/transport/channel.h"
#include "tandem/internal/v1/draft.grpc.pb.h"
#include "tandem/internal/v1/target.grpc.pb.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tests/integration/models.h"
#include "tests/integration/requests.h"
#include "tests/integration/secure_load.h"
#include "tests/integration/secure_services.h"
#include "tests/support/wait.h"

namespace tandem::testing {
namespace {

using Flags = std::vector<std::string>;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kOld[] = "former-70e1b8d25c94fa36";
constexpr char kNew[] = "second-70e1b8d25c94fa36";

// Three services whose files are in `files`, which a test fills before Begin.
class RotationTest : public ::testing::Test {
 protected:
  void Begin() {
    target_ = std::make_unique<Service>("target", files_.Server("target"));
    draft_ = std::make_unique<Service>("draft", files_.Server("draft"));
    orchestrator_ = std::make_unique<Service>(
        "orchestrator",
        files_.Server("orchestrator") + files_.Peers("orchestrator") +
            Flags{"--token-file=" + files_.Path("tokens"), "--target=" + target_->address(),
                  "--draft=" + draft_->address()});
    ASSERT_TRUE(orchestrator_->Says(0, {" ready"})) << orchestrator_->Output();
    load_ =
        std::make_unique<SecureLoad>(orchestrator_->address(), files_.Client(), Connect(files_));
    load_->GoOn();
  }

  void TearDown() override {
    load_ = nullptr;
    for (const Service* service : {target_.get(), draft_.get(), orchestrator_.get()}) {
      EXPECT_THAT(secrets_.In(service->Output()), IsEmpty());
    }
  }

  // After all replacements: nothing failed; a restarted target and draft are connected to again and
  // used, so what both sides have now fits.
  void ExpectNothingFailed() {
    load_->GoOn();
    load_->End();
    EXPECT_THAT(load_->failures(), IsEmpty()) << orchestrator_->Output();
    EXPECT_THAT(secrets_.In(load_->said()), IsEmpty());
    target_->Restart();
    draft_->Restart();
    const auto channel = Connect(files_);
    Reply reply;
    EXPECT_TRUE(WaitUntil([&] {
      reply = Send(channel, GreedyRequest({1, 2, 3}, 16, 4));
      return reply.status.ok() && reply.record().draft_tokens() > 0;
    })) << reply.status
        << orchestrator_->Output();
  }

  static security::TlsClientOptions Tls(const Files& files) {
    return {files.Path("trust.pem"), files.Path("client.pem"), files.Path("client.key"), ""};
  }
  std::shared_ptr<grpc::Channel> Connect(const Files& files) const {
    const auto security = transport::MakeChannelSecurity(Tls(files), files.Path("mine"));
    EXPECT_TRUE(security.ok()) << security.status();
    return transport::MakeChannel(orchestrator_->address(), *security);
  }

  // The certificate that a service shows on a new connection.
  template <typename ServiceType>
  std::string Shown(const Service& service) const {
    const auto security = transport::MakeChannelSecurity(Tls(files_), files_.Path("mine"));
    EXPECT_TRUE(security.ok()) << security.status();
    grpc::ClientContext context;
    v1::DescribeReply reply;
    const grpc::Status status =
        ServiceType::NewStub(transport::MakeChannel(service.address(), *security))
            ->Describe(&context, {}, &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    const auto shown = context.auth_context()->FindPropertyValues("x509_pem_cert");
    return shown.empty() ? "" : std::string(shown[0].data(), shown[0].size());
  }
  // Until new connections to all three are made with what their files have now.
  void ExpectInForce() const {
    EXPECT_TRUE(WaitUntil([&] {
      return Shown<v1::Generation>(*orchestrator_) == ReadFile(files_.Path("orchestrator.pem")) &&
             Shown<internal::v1::Target>(*target_) == ReadFile(files_.Path("target.pem")) &&
             Shown<internal::v1::Draft>(*draft_) == ReadFile(files_.Path("draft.pem"));
    })) << target_->Output()
        << draft_->Output() << orchestrator_->Output();
  }

  void AddSecrets(const std::string& folder) {
    for (const char* name : {"orchestrator", "draft", "target", "client"}) {
      secrets_.AddKey(absl::StrCat(folder, "/", name, ".key"));
    }
    secrets_.AddToken(kOld);
    secrets_.AddToken(kNew);
  }

  const ScratchFolder folder_;
  Files files_{folder_.path() + "/files"};
  Secrets secrets_;
  std::unique_ptr<Service> target_, draft_, orchestrator_;
  std::unique_ptr<SecureLoad> load_;
};

// By hand: scripts/certs puts one file after another in place, by renaming.
TEST_F(RotationTest, FileByFile) {
  MakeCertificates(files_.folder);
  WriteFile(files_.Path("trust.pem"), ReadFile(files_.Path("ca.pem")));
  WriteFile(files_.Path("tokens"), kOld);
  WriteFile(files_.Path("mine"), kOld);
  AddSecrets(files_.folder);
  ASSERT_NO_FATAL_FAILURE(Begin());
  const std::string before = ReadFile(files_.Path("target.pem"));
  EXPECT_EQ(Shown<internal::v1::Target>(*target_), before);
  for (int i = 0; i < 2; ++i) {
    MakeCertificates(files_.folder, {"--renew"});
    AddSecrets(files_.folder);
    ExpectInForce();
    load_->GoOn();
  }
  EXPECT_NE(ReadFile(files_.Path("target.pem")), before);
  for (const Service* service : {target_.get(), draft_.get(), orchestrator_.get()}) {
    EXPECT_TRUE(service->Says(0, {"certificate_replaced", "valid_until="})) << service->Output();
  }

  // Tokens: both are good, clients go over, the old one goes.
  Replace(files_.Path("tokens"), absl::StrCat(kOld, "\n", kNew, "\n"));
  load_->GoOn();
  Replace(files_.Path("mine"), kNew);
  load_->GoOn();  // whoever had read the old one is through
  Replace(files_.Path("tokens"), kNew);
  load_->GoOn();
  WriteFile(files_.Path("former"), kOld);
  const CommandResult former = Generate(orchestrator_->address(), files_.Client("former"));
  EXPECT_THAT(former.output, HasSubstr("UNAUTHENTICATED"));
  ExpectNothingFailed();

  // The negative control: a token that is taken away before its clients have the next one.
  load_ = std::make_unique<SecureLoad>(orchestrator_->address(), files_.Client(), Connect(files_));
  load_->GoOn();
  EXPECT_THAT(load_->failures(), IsEmpty());
  Replace(files_.Path("tokens"), kOld);
  EXPECT_TRUE(WaitUntil([&] { return load_->failures().size() >= 8; }));
  for (const std::string& failure : load_->failures()) {
    EXPECT_THAT(failure, HasSubstr("UNAUTHENTICATED"));
  }
}

}  // namespace
}  // namespace tandem::testing
