// Who may call, by the token that comes with a call, and tokens that are replaced under load.
#include <gtest/gtest.h>

#include "tests/common/security/tls_fixture.h"

namespace tandem::security {
namespace {

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
  EXPECT_EQ(status.error_message(), "unknown token in 'authorization'");
  EXPECT_TRUE(Logged("unauthenticated", {"unknown token"})) << Log();
}

TEST_F(TokenTest, AChannelThatStandsSendsTheReplacedOne) {
  const auto channel = With(kToken);
  EXPECT_TRUE(Call(channel).status.ok());
  folder_.Put("tokens", kOther);
  EXPECT_EQ(Call(channel).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  folder_.Put("mine", kOther);
  EXPECT_TRUE(Call(channel).status.ok());
}

}  // namespace
}  // namespace tandem::security
