// Who may call, by the token that comes with a call, and tokens that are replaced under load.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

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
}  // namespace tandem::security
