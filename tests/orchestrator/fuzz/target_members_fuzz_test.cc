// Targets come, leave, break and return in any order while sessions come, leave, fail and wait:
// what must hold at every moment holds (members_world.h), and bugs that are planted are found.
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/verify/members_world.h"
#include "tests/support/fuzz_seeds.h"

namespace tandem::orchestrator {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TargetMembersFuzz, WhatMustHoldHolds) {
  MembersWorld::Seen seen;
  for (uint32_t seed = 0; seed < testing::FuzzSeeds(80); ++seed) {
    MembersWorld world(seed, Planted::kNothing);
    ASSERT_THAT(world.Run(200), IsEmpty()) << "seed " << seed;
    seen.leaving += world.seen().leaving;
    seen.ejected += world.seen().ejected;
    seen.waiting += world.seen().waiting;
  }
  EXPECT_GT(seen.leaving, 400);
  EXPECT_GT(seen.ejected, 400);
  EXPECT_GT(seen.waiting, 400);
}

TEST(TargetMembersFuzz, PlantedBugsAreFound) {
  const std::pair<Planted, std::string> bugs[] = {
      {Planted::kDropsNudges, " sessions, it has "},
      {Planted::kKeepsSessions, " sessions, it has "},
      {Planted::kKeepsTargets, "the list is "},
      {Planted::kMixesModels, "goes on at"},
      {Planted::kLosesTargets, "the list is "},
  };
  for (const auto& [planted, found] : bugs) {
    EXPECT_THAT(absl::StrJoin(MembersWorld(1, planted).Run(400), "; "), HasSubstr(found));
  }
}

}  // namespace
}  // namespace tandem::orchestrator
