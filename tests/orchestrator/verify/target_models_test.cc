// Targets of several models that come and go: a running text goes on with its own alone.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/request/internal_reason.h"
#include "tests/orchestrator/verify/pool_guest.h"
#include "tests/orchestrator/verify/pool_texts.h"

namespace tandem::orchestrator {
namespace {

using ::testing::HasSubstr;

TEST(TargetModels, ANameWithoutAnAddressMayYetHaveTheModel) {
  PoolHarness harness(1);
  auto guest = Come(harness, {.model_id = "another"});
  EXPECT_EQ(guest->Seek(), "unfit");
  harness.SetPeers("a", {"tandem-target-b:50052: no such host"});
  EXPECT_EQ(guest->Seek(), "no target");
  EXPECT_EQ(guest->result.reason, "target a has model model; tandem-target-b:50052: no such host");
  EXPECT_TRUE(harness.pool().Ready().ok());
}

// The new replica serves another model: what runs at the old one ends there, new requests take the
// new.
TEST(TargetModels, ANameThatMovesToAnotherModel) {
  for (bool dies : {false, true}) {
    PoolHarness harness(2);
    harness.target(1).welcome.set_model_id("another");
    harness.SetPeers("a");
    harness.DeliverAll();
    auto& old = harness.Add(Text(1, 200));
    harness.Run([&] { return old.output().size() >= 5; });
    harness.SetPeers("b");
    harness.Run([&] { return harness.pool().Peers()[0].ready(); });
    ASSERT_FALSE(old.ending.has_value());
    EXPECT_EQ(harness.pool().welcome()->model_id(), "another") << "new requests are checked so";
    auto& fresh = harness.Add(Text(2));
    harness.Run([&] { return old.output().size() >= 10; });
    if (dies) harness.target(0).Kill();
    harness.Run();
    ExpectRight(fresh);
    EXPECT_EQ(harness.target(1).opened, 1);
    if (!dies) {
      ExpectRight(old);
      EXPECT_EQ(old.ending->counts.target_replays, 0u);
    } else {
      EXPECT_EQ(old.ending->status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(
          LogText(old.ending->status),
          HasSubstr("the targets' model changed during the request: no target has model any "
                    "more: target b has model another"));
    }
  }
}

}  // namespace
}  // namespace tandem::orchestrator
