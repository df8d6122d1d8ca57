#include "client/common/orchestrator_flags.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tandem::client
