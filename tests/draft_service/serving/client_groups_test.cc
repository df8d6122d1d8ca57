#include "draft_service/serving/client_groups.h"

#include <gtest/gtest.h>

namespace tandem::draft_service {
namespace {

TEST(ClientGroupsTest, StreamsOfAClientAreAGroupWhileItHasAny) {
  ClientGroups groups;
  const uint64_t first = groups.Join("one");
  const uint64_t other = groups.Join("other");
  EXPECT_NE(other, first);
  EXPECT_EQ(groups.Join("one"), first);
  groups.Leave("one");
  EXPECT_EQ(groups.Join("one"), first);
  groups.Leave("one");
  groups.Leave("one");
  EXPECT_NE(groups.Join("one"), other) << "nobody else's";
}

}  // namespace
}  // namespace tandem::draft_service
