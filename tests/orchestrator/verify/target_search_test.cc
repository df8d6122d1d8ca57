#include "orchestrator/verify/target_search.h"

#include <list>
#include <string>
#include <vector>

#include "common/concurrency/instant.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {
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

}  // namespace
}  // namespace tandem::orchestrator
