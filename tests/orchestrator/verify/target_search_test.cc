#include "orchestrator/verify/target_search.h"

#include <list>
#include <string>
#include <vector>

#include "common/concurrency/instant.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator::target_search_test {
namespace {

const concurrency::Instant kNow = concurrency::Instant(absl::Hours(1));

struct World {
  // Of stream 1, 2, …; called "a", "b", …; all alike, and with no client: a search calls none.
  TargetView& Add() {
    TargetView& view = views.emplace_back();
    view.client = nullptr;
    view.slots = &slots.emplace_back();
    view.info.incarnation = base::Incarnation{views.size()};
    view.slots->Follow(view.info.incarnation);
    view.info.name = std::string(1, static_cast<char>('a' + views.size() - 1));
    view.info.model_id = "model";
    view.info.numerics_id = "numerics";
    view.leaving = false;
    view.queued_rows = 0;
    view.sequences = 0;
    view.ejected_until = concurrency::Instant::InfinitePast();
    return view;
  }
  // All that a search names, in its order.
  std::string Search() {
    TargetSearch search(needs, past, views, kNow);
    std::string names;
    while (const TargetView* view = search.Next(chooser)) names += view->info.name;
    return names;
  }

  World() { views.reserve(10); }
  SessionNeeds needs;
  SessionPast past;
  std::vector<TargetView> views;
  std::list<TargetSlots> slots;
  Chooser chooser{3};
};

TEST(TargetSearch, RanksFaultThenNumericsThenQueueThenSequences) {
  World world;
  world.needs.numerics_id = "numerics";
  world.past.failed = base::Incarnation{1};
  world.Add();                             // a: failed it
  world.Add().info.numerics_id = "other";  // b
  world.Add().queued_rows = 7;             // c
  world.Add().sequences = 1;               // d
  EXPECT_EQ(world.Search(), "dcba");
  world.views[3].queued_rows = 8;
  EXPECT_EQ(world.Search(), "cdba");
}

TEST(TargetSearch, OneThatTakesNoneOrIsEjectedIsForWantOfAnyOther) {
  World world;
  world.Add().leaving = true;
  world.Add().slots->Drains();
  world.Add().ejected_until = kNow + absl::Seconds(2);
  world.Add().ejected_until = kNow + absl::Seconds(1);
  EXPECT_EQ(world.Search(), "dc") << "the one whose time is over first";
  world.Add();
  EXPECT_EQ(world.Search(), "e");
  world.views[4].slots->Full(kNow);
  EXPECT_EQ(world.Search(), "") << "a full one is worth waiting for";
  world.views.resize(2);
  const std::string left = world.Search();
  EXPECT_TRUE(left == "ab" || left == "ba") << left;
}

TEST(TargetSearch, OnlyItsOwnModelAndOnlyWhereItMayHaveASlot) {
  World world;
  world.needs.model_id = "model";
  world.Add().info.model_id = "another";
  world.Add().slots->Full(kNow);
  world.Add();  // c: too small for it
  world.Add();
  world.past.small = base::Incarnation{3};
  world.past.small_until = kNow + absl::Milliseconds(1);
  EXPECT_EQ(world.Search(), "d");
  world.past.small_until = kNow;
  world.views[3].queued_rows = 1;
  EXPECT_EQ(world.Search(), "cd");
  world.needs.model_id = "third";
  EXPECT_EQ(world.Search(), "");
}

TEST(TargetSearch, WhatCanNeverHoldTheTextIsNotConsidered) {
  World world;
  world.needs.length = 1000;
  world.Add().info.max_length = 999;
  world.Add().info.max_length = 1000;
  world.Add();  // c: it does not say
  EXPECT_EQ(world.Search().size(), 2u);
  EXPECT_EQ(world.Search().find('a'), std::string::npos);
}

TEST(TargetSearch, WithoutRoomOneTargetIsWaitedFor) {
  World world;
  world.needs.length = 600;
  const auto waits_for = [&world] {
    TargetSearch search(world.needs, world.past, world.views, kNow);
    const TargetView* view = search.ToWaitFor();
    return view == nullptr ? "none" : view->info.name;
  };
  for (int64_t tokens : {100, 300, 200}) {
    world.Add().slots->Reported({.slots = 1, .tokens = tokens}, kNow);
  }
  EXPECT_EQ(world.Search(), "");
  EXPECT_EQ(waits_for(), "b") << "it has most";
  world.views[1].kept = true;
  EXPECT_EQ(waits_for(), "c") << "that room is another one's";
  world.past.small = base::Incarnation{1};
  EXPECT_EQ(waits_for(), "a") << "it stands in line there";
  world.views[0].slots->Full(kNow);
  EXPECT_EQ(waits_for(), "c") << "room without a slot is nothing to wait for";
  world.views[2].slots->Reported({.slots = 1, .tokens = 600}, kNow);
  EXPECT_EQ(world.Search(), "c");
  EXPECT_EQ(waits_for(), "none");
  world.views[2].kept = true;
  EXPECT_EQ(world.Search(), "") << "kept from those behind, however much there is";
}

}  // namespace
}  // namespace tandem::orchestrator::target_search_test
