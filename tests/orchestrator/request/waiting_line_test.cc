#include "orchestrator/request/waiting_line.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(WaitingLine, PriorityThenArrival) {
  WaitingLine line;
  line.Join(4, 0, "");
  line.Join(2, 0, "");
  line.Join(3, 7, "");
  line.Join(5, 10, "");
  line.Join(1, 7, "");
  EXPECT_THAT(line.InOrder(), ElementsAre(5, 1, 3, 2, 4));
  EXPECT_EQ(line.Front(), 5u);
  EXPECT_EQ(line.size(), 5u);
}

TEST(WaitingLine, WhoJoinsTwiceKeepsItsPlaceAndWhoLeavesIsGone) {
  WaitingLine line;
  line.Join(1, 0, "");
  line.Join(2, 0, "");
  line.Join(1, 0, "");
  EXPECT_THAT(line.InOrder(), ElementsAre(1, 2));
  EXPECT_TRUE(line.Leave(1, true));
  EXPECT_FALSE(line.Leave(1, true));
  EXPECT_THAT(line.InOrder(), ElementsAre(2));
  line.Leave(2, false);
  EXPECT_TRUE(line.empty());
  EXPECT_THAT(line.InOrder(), IsEmpty());
}

TEST(WaitingLine, OfOnePriorityClientsHaveTurns) {
  WaitingLine line;
  for (uint64_t i = 1; i <= 4; ++i) line.Join(i, 0, "a:1");
  line.Join(5, 0, "b:1");
  line.Join(6, 1, "a:1");
  EXPECT_THAT(line.InOrder(), ElementsAre(6, 1, 5, 2, 3, 4));
  line.Leave(6, true);
  line.Leave(1, true);
  line.JoinAgain(1, 0, "a:1");
  line.JoinAgain(5, 0, "b:1");  // it is in line
  EXPECT_THAT(line.InOrder(), ElementsAre(1, 5, 2, 3, 4)) << "its turn had brought nothing";
}

TEST(WaitingLine, WhatGivesWayIsOfTheLowestPriority) {
  WaitingLine line;
  EXPECT_EQ(line.GivesWayTo(0, "b:1"), std::nullopt);
  for (uint64_t i = 1; i <= 3; ++i) line.Join(i, 5, "a:1");
  EXPECT_EQ(line.GivesWayTo(0, "b:1"), std::nullopt) << "of a higher priority than all";
  EXPECT_EQ(line.GivesWayTo(5, "b:1"), 3u);
  for (uint64_t i = 4; i <= 6; ++i) line.Join(i, 2, "a:2");
  EXPECT_EQ(line.GivesWayTo(5, "b:1"), 6u);
}

}  // namespace
}  // namespace tandem::orchestrator
