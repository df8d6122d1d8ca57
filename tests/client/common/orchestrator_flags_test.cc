#include "client/common/orchestrator_flags.h"

#include <gtest/gtest.h>
#include <stdlib.h>

namespace tandem::client {
namespace {

absl::Status Given(std::vector<std::string> args, const std::string& address) {
  args.push_back("--orchestrator=" + address);
  OrchestratorFlags orchestrator;
  flags::FlagSet flags("tandem test", "");
  orchestrator.AddTo(flags);
  const absl::Status parsed = flags.Parse(args);
  return parsed.ok() ? orchestrator.Validate() : parsed;
}

TEST(OrchestratorFlagsTest, NothingIsPlaintext) { EXPECT_TRUE(Given({}, "far:50050").ok()); }

TEST(OrchestratorFlagsTest, WhatBelongsTogether) {
  EXPECT_TRUE(Given({"--tls-ca=a", "--tls-certificate=b", "--tls-key=c"}, "far:50050").ok());
  EXPECT_FALSE(Given({"--tls-ca=a", "--tls-certificate=b"}, "far:50050").ok());
  EXPECT_FALSE(Given({"--tls-certificate=b", "--tls-key=c"}, "far:50050").ok());
  EXPECT_FALSE(Given({"--tls-server-name=x"}, "far:50050").ok());
}

TEST(OrchestratorFlagsTest, ATokenLeavesTheMachineEncryptedAlone) {
  EXPECT_TRUE(Given({"--token-file=t", "--tls-ca=a"}, "far:50050").ok());
  for (const char* here : {"localhost:50050", "127.0.0.1:50050", "[::1]:50050"}) {
    EXPECT_TRUE(Given({"--token-file=t"}, here).ok()) << here;
  }
  for (const char* away : {"far:50050", "10.0.0.1:50050", "127.example:50050"}) {
    EXPECT_FALSE(Given({"--token-file=t"}, away).ok()) << away;
  }
}

// For as long as it lives.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }

 private:
  const char* const name_;
};

TEST(OrchestratorFlagsTest, TheEnvironmentCountsWhereAFlagSaysNothing) {
  const Environment address("TANDEM_ORCHESTRATOR", "far:1");
  const Environment file("TANDEM_TOKEN_FILE", "theirs");
  OrchestratorFlags orchestrator;
  flags::FlagSet flags("tandem test", "");
  orchestrator.AddTo(flags);
  EXPECT_EQ(orchestrator.address, "far:1");
  EXPECT_EQ(*orchestrator.TokenFile(), "theirs");
  EXPECT_EQ(orchestrator.Validate().message().substr(0, 30), "TANDEM_TOKEN_FILE needs --tls-");
  ASSERT_TRUE(flags.Parse({"--orchestrator=localhost:2", "--token-file=mine"}).ok());
  EXPECT_EQ(orchestrator.address, "localhost:2");
  EXPECT_EQ(*orchestrator.TokenFile(), "mine");
  EXPECT_TRUE(orchestrator.Validate().ok());
}

TEST(OrchestratorFlagsTest, ATokenOfTheEnvironmentIsAToken) {
  const Environment token("TANDEM_TOKEN", "0123456789abcdef");
  EXPECT_TRUE(Given({}, "localhost:1").ok());
  EXPECT_EQ(Given({}, "far:1").message().substr(0, 25), "TANDEM_TOKEN needs --tls-");
  const Environment file("TANDEM_TOKEN_FILE", "theirs");
  EXPECT_FALSE(Given({}, "localhost:1").ok()) << "which of them?";
  EXPECT_TRUE(Given({"--token-file=mine"}, "localhost:1").ok());
}

TEST(OrchestratorFlagsTest, AWrongAddressIsNamedByItsPlace) {
  const Environment address("TANDEM_ORCHESTRATOR", "nowhere");
  OrchestratorFlags orchestrator;
  flags::FlagSet flags("tandem test", "");
  orchestrator.AddTo(flags);
  EXPECT_EQ(orchestrator.Validate().message().substr(0, 19), "TANDEM_ORCHESTRATOR");
}

}  // namespace
}  // namespace tandem::client
