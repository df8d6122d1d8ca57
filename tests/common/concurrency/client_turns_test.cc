#include "common/concurrency/client_turns.h"

#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::concurrency {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ClientTurns, AddressesAreWithoutPortsAndOfIpv6OnlyTheNetworkCounts) {
  EXPECT_EQ(AddressOf("ipv4:10.0.0.7:41234"), "ipv4:10.0.0.7");
  EXPECT_EQ(AddressOf("ipv6:[2001:db8:1:2:3:4:5:6]:99"), "ipv6:2001:db8:1:2::");
  EXPECT_EQ(AddressOf("ipv6:%5B2001:db8:1:2::7%5D:99"), "ipv6:2001:db8:1:2::");
  EXPECT_EQ(AddressOf("ipv6:%5Bfe80::1%25eth0%5D:99"), "ipv6:fe80::");
  EXPECT_EQ(AddressOf("unix:/run/tandem"), "unix");
  EXPECT_EQ(AddressOf("gone"), "gone");
  EXPECT_EQ(AddressOf(""), "");
}

TEST(ClientTurns, OfOneClientTheOrderOfArrival) {
  ClientTurns line;
  for (const uint64_t number : {4, 2, 5, 2}) line.Join("a:1", number);
  EXPECT_EQ(line.size(), 3u);
  EXPECT_EQ(line.Front(), 2u);
  EXPECT_THAT(line.InOrder(), ElementsAre(2, 4, 5));
  EXPECT_TRUE(line.Leave("a:1", 2, true));
  EXPECT_FALSE(line.Leave("a:1", 2, true));
  EXPECT_FALSE(line.Leave("b:1", 4, true));
  EXPECT_THAT(line.InOrder(), ElementsAre(4, 5));
}

// Many connections of one address have one turn among them, and turns among themselves.
TEST(ClientTurns, AddressesInTurnThenTheirConnections) {
  ClientTurns line;
  uint64_t number = 0;
  for (int connection = 1; connection <= 3; ++connection) {
    for (int i = 0; i < 2; ++i) line.Join(absl::StrCat("a:", connection), ++number);
  }
  line.Join("b:1", 7);
  line.Join("b:1", 8);
  EXPECT_THAT(line.InOrder(), ElementsAre(1, 7, 3, 8, 5, 2, 4, 6));
  line.Leave("a:1", 1, true);
  EXPECT_THAT(line.InOrder(), ElementsAre(7, 3, 8, 5, 2, 4, 6)) << "as was said before";
  line.Join("c:1", 9);
  EXPECT_THAT(line.InOrder(), ElementsAre(7, 3, 9, 8, 5, 2, 4, 6));
  line.Leave("a:2", 3, false);
  EXPECT_THAT(line.InOrder(), ElementsAre(7, 4, 9, 8, 5, 2, 6)) << "it had no turn";
}

TEST(ClientTurns, WhoJoinsAgainIsNext) {
  ClientTurns line;
  line.Join("a:1", 1);
  line.Join("a:2", 2);
  line.Join("b:1", 3);
  line.Join("b:2", 4);
  ASSERT_TRUE(line.Leave("b:2", 4, true));
  line.JoinAgain("b:2", 4);
  EXPECT_THAT(line.InOrder(), ElementsAre(4, 1, 3, 2));
}

TEST(ClientTurns, InAFullLineTheLastOfTheLargestGivesWay) {
  ClientTurns line;
  EXPECT_EQ(line.GivesWayTo("a:1"), std::nullopt);
  for (uint64_t i = 1; i <= 4; ++i) line.Join("a:1", i);
  line.Join("a:2", 5);
  line.Join("b:1", 6);
  EXPECT_EQ(line.GivesWayTo("c:1"), 4u);
  EXPECT_EQ(line.GivesWayTo("b:2"), 4u);
  EXPECT_EQ(line.GivesWayTo("a:2"), 4u) << "a connection of the same address";
  EXPECT_EQ(line.GivesWayTo("a:1"), std::nullopt) << "it has the most itself";
  for (const uint64_t number : {2, 3, 4, 5}) line.Leave("a:1", number, false);
  line.Leave("a:2", 5, false);
  EXPECT_EQ(line.GivesWayTo("c:1"), std::nullopt) << "then it would have the most";
}

TEST(ClientTurns, WhatWasToldInOrderIsWhatComes) {
  std::mt19937 random(7);
  ClientTurns line;
  std::map<uint64_t, std::string> clients;
  for (uint64_t number = 1; number <= 300; ++number) {
    clients[number] = absl::StrCat(random() % 4, ":", random() % 5);
    line.Join(clients[number], number);
  }
  std::vector<uint64_t> served;
  const std::vector<uint64_t> told = line.InOrder();
  while (!line.empty()) {
    served.push_back(line.Front());
    ASSERT_TRUE(line.Leave(clients[served.back()], served.back(), true));
  }
  EXPECT_EQ(served, told);
  EXPECT_THAT(line.InOrder(), IsEmpty());
}

}  // namespace
}  // namespace tandem::concurrency
