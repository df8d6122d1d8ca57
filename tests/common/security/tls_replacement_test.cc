// Certificates that are replaced while calls run; what is wrong is kept out.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "tests/common/security/tls_fixture.h"

namespace tandem::security {
namespace {

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

}  // namespace
}  // namespace tandem::security
