#include "common/speculation/held_prefix.h"

#include <gtest/gtest.h>

namespace tandem::speculation {
namespace {

internal::v1::Prefix MakePrefix(absl::Span<const uint32_t> committed, uint32_t keep) {
  internal::v1::Prefix prefix;
  prefix.set_keep(keep);
  for (uint32_t token : committed.subspan(keep)) prefix.add_tokens(token);
  prefix.set_hash(PrefixHash(committed));
  return prefix;
}

TEST(HeldPrefix, MatchesWhatIsHeldBeyondKeep) {
  HeldPrefix held;
  held.Append(std::vector<uint32_t>{1, 2, 3, 4, 5});
  PrefixMatch match = held.Match(MakePrefix(std::vector<uint32_t>{1, 2, 3, 4, 9, 9}, 2));
  ASSERT_FALSE(match.refusal.has_value());
  EXPECT_EQ(match.committed, 6u);
  EXPECT_EQ(match.standing, 4u);
  match = held.Match(MakePrefix(std::vector<uint32_t>{1, 2}, 2));
  EXPECT_EQ(match.standing, 2u);
  match = held.Match(MakePrefix(std::vector<uint32_t>{7}, 0));
  EXPECT_EQ(match.standing, 0u);
}

TEST(HeldPrefix, RefusesWhatItDoesNotHold) {
  HeldPrefix held;
  held.Append(std::vector<uint32_t>{1, 2, 3});
  PrefixMatch match = held.Match(MakePrefix(std::vector<uint32_t>{1, 2, 3, 4, 5}, 4));
  ASSERT_TRUE(match.refusal.has_value());
  EXPECT_EQ(match.refusal->status, internal::v1::STATUS_NEED_PREFIX);
  EXPECT_EQ(match.refusal->problem.held(), 3u);
  // The sender believes in another second token: only the hash can tell.
  match = held.Match(MakePrefix(std::vector<uint32_t>{1, 8, 3, 4}, 3));
  ASSERT_TRUE(match.refusal.has_value());
  EXPECT_EQ(match.refusal->problem.held(), 0u);
}

TEST(HeldPrefix, HashesFollowTruncation) {
  HeldPrefix held;
  held.Append(std::vector<uint32_t>{1, 2, 3});
  held.Truncate(1);
  held.Append(std::vector<uint32_t>{5, 6});
  EXPECT_FALSE(held.Match(MakePrefix(std::vector<uint32_t>{1, 5, 6}, 3)).refusal.has_value());
  EXPECT_TRUE(held.Match(MakePrefix(std::vector<uint32_t>{1, 2, 3}, 3)).refusal.has_value());
}

}  // namespace
}  // namespace tandem::speculation
