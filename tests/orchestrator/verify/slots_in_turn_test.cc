// Clients that take all slots of a target, and leave unread what comes: others are served all the
// same, and nobody's text changes.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/pool_harness.h"

namespace tandem::orchestrator {
namespace {

constexpr uint32_t kSlots = 4;
constexpr int kUnread = 40;

LoopOptions Patient() {
  LoopOptions loop;
  loop.max_undelivered_tokens = 16;
  loop.close_after = absl::Hours(1);
  loop.abort_after = absl::Hours(2);
  loop.slot_patience = absl::Hours(3);
  return loop;
}

GenerationRequest RequestOf(const std::string& client, uint64_t seed) {
  GenerationRequest request = SmallRequest(0u, 1.0);
  request.rule = acceptance::Rule::kCoupled;
  request.seed = seed;
  request.max_tokens = 100;
  request.client = client;
  return request;
}

struct World {
  World() : harness(1, Patient()) { harness.target(0).slots = kSlots; }

  PoolHarness::Request& AddUnread(const std::string& client) {
    PoolHarness::Request& request = harness.Add(RequestOf(client, unread.size() + 1));
    request.reader.reads = false;
    unread.push_back(&request);
    return request;
  }
  // Sequences that were opened for others until a request that comes now has its whole text.
  int OpenedBefore(const std::string& client) {
    PoolHarness::Request& request = harness.Add(RequestOf(client, 77));
    const int before = harness.target(0).opened;
    harness.Run([&] { return !request.output().empty(); });
    const int opened = harness.target(0).opened - before - 1;
    harness.Run([&] { return request.ending.has_value(); });
    EXPECT_TRUE(request.ending->status.ok()) << request.ending->status;
    EXPECT_EQ(request.output(), PlainIds(request.request));
    return opened;
  }
  void ReadAll() {
    for (PoolHarness::Request* request : unread) {
      request->reader.reads = true;
      // As when the transport has written it all.
      for (; request->reader.waiting > 0; --request->reader.waiting) request->stream->OnWritten();
      request->loop->OnDrained();
    }
    harness.Run();
    for (const PoolHarness::Request* request : unread) {
      ASSERT_TRUE(request->ending->status.ok()) << request->ending->status;
      EXPECT_EQ(request->output(), PlainIds(request->request));
    }
  }

  PoolHarness harness;
  std::vector<PoolHarness::Request*> unread;
};

TEST(SlotsInTurn, AnotherClientIsServedWhileThoseThatDoNotReadArePaused) {
  World world;
  for (int i = 0; i < kUnread; ++i) world.AddUnread("ipv4:10.0.0.1:1");
  world.harness.DeliverAll();
  const concurrency::Instant began = world.harness.clock.Now();
  // The first slot that gets free is for it, though 36 came before it.
  EXPECT_LE(world.OpenedBefore("ipv4:10.0.0.2:1"), 1);
  for (const PoolHarness::Request* request : world.unread) {
    EXPECT_FALSE(request->ending.has_value());
  }
  EXPECT_LT(world.harness.clock.Now() - began, Patient().close_after);
  world.ReadAll();
}

// A connection for each, as of HTTP: their address has one turn, and so has each of them where it
// is the other client's address, too.
TEST(SlotsInTurn, ManyConnectionsAreOneAddress) {
  for (const bool same_address : {false, true}) {
    World world;
    for (int i = 0; i < kUnread; ++i) {
      for (int sample = 0; sample < 3; ++sample) world.AddUnread(absl::StrCat("ipv4:10.0.0.1:", i));
    }
    world.harness.DeliverAll();
    const int opened = world.OpenedBefore(same_address ? "ipv4:10.0.0.1:99" : "ipv4:10.0.0.2:99");
    EXPECT_LE(opened, same_address ? kUnread : 1);
    world.ReadAll();
  }
}

// All slots are held by sequences that wait for their readers, and nobody came while they paused.
TEST(SlotsInTurn, OneThatPausesGivesItsSlotToWhoComesLater) {
  World world;
  for (uint32_t i = 0; i < kSlots; ++i) world.AddUnread("ipv4:10.0.0.1:1");
  world.harness.DeliverAll();
  EXPECT_EQ(world.harness.target(0).sequences().size(), kSlots) << "they keep theirs meanwhile";
  EXPECT_EQ(world.OpenedBefore("ipv4:10.0.0.1:1"), 0);
  world.harness.DeliverAll();
  EXPECT_EQ(world.harness.target(0).sequences().size(), kSlots - 1) << "one slot was wanted";
  world.ReadAll();
}

}  // namespace
}  // namespace tandem::orchestrator
