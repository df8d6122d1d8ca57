// Connections without end: others are served meanwhile and afterwards, and memory stays bounded.
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/common/admin/http_client.h"
#include "tests/deploy/probe.h"
#include "tests/integration/attack.h"

namespace tandem::testing {
namespace {

constexpr int kConnections = 600;

class ConnectionAttackTest : public AttackTest {
 protected:
  bool Alive() {
    return Probe(absl::StrCat("127.0.0.1:", orchestrator_->AdminPort()), "liveness",
                 absl::Seconds(10));
  }
};

TEST_F(ConnectionAttackTest, ConnectionsAreBoundedByTheFlag) {
  Start({"--max-connections=50"});
  ASSERT_TRUE(ServesSoon()) << orchestrator_->Output();
  const int64_t before = PeakBytes("orchestrator at rest", *orchestrator_);
  std::vector<admin::PlainConnection> connections;
  for (int i = 0; i < kConnections; ++i) {
    connections.emplace_back(orchestrator_->port());
    connections.back().Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  }
  EXPECT_TRUE(orchestrator_->Says(0, {"connection_refused", "50 connections"}));
  EXPECT_TRUE(Alive());
  // 1 MB for each connection that there may be is more than enough.
  EXPECT_LT(PeakBytes("orchestrator with 600 who connect", *orchestrator_), before + 50'000'000);
  connections.clear();
  EXPECT_TRUE(ServesSoon()) << orchestrator_->Output();
}

}  // namespace
}  // namespace tandem::testing
