// A long text among short ones that come all the time: it gets its room when its turn comes.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/verify/pool_texts.h"

namespace tandem::orchestrator {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRoom = 310;   // of a target, in tokens
constexpr uint32_t kShort = 40;  // max_tokens: five texts fit, with prompt and block, and no sixth
constexpr size_t kCrowd = 8;     // short texts at once, so that three are always in line

// Keeps kCrowd short texts going, as clients do who ask again as soon as they are answered.
class Crowd {
 public:
  explicit Crowd(PoolHarness& harness) : harness_(harness) {
    for (size_t i = 0; i < kCrowd; ++i) Add();
  }

  // Runs until then, with always as many texts. False: it never came within `most` texts.
  bool Run(const std::function<bool()>& until, size_t most) {
    while (!until() && requests_.size() < most) {
      harness_.Run([&] { return until() || running() < kCrowd; });
      while (running() < kCrowd) Add();
    }
    return until();
  }
  size_t size() const { return requests_.size(); }
  size_t begun() const {
    return static_cast<size_t>(std::count_if(requests_.begin(), requests_.end(), [](auto* request) {
      return !request->output().empty();
    }));
  }
  const std::vector<PoolHarness::Request*>& requests() const { return requests_; }

 private:
  void Add() { requests_.push_back(&harness_.Add(Text(requests_.size() + 1, kShort))); }
  size_t running() const {
    return static_cast<size_t>(std::count_if(requests_.begin(), requests_.end(), [](auto* request) {
      return !request->ending.has_value();
    }));
  }

  PoolHarness& harness_;
  std::vector<PoolHarness::Request*> requests_;
};

// As long as the room of a target: its prompt has 5 tokens, and a block takes 16.
GenerationRequest LongText(uint32_t priority = 0) {
  GenerationRequest request = Text(1000, static_cast<uint32_t>(kRoom) - 5 - 16);
  request.priority = priority;
  return request;
}

// Of the short texts that stood in line when the long one came, how many begin before it.
size_t ServedBefore(int targets, uint32_t priority) {
  PoolHarness harness(targets);
  for (int i = 0; i < targets; ++i) harness.target(static_cast<size_t>(i)).room = kRoom;
  Crowd crowd(harness);
  EXPECT_TRUE(crowd.Run([&] { return crowd.size() > 3 * kCrowd; }, 100));
  const size_t begun = crowd.begun();
  const size_t came = crowd.size();
  const size_t have_room = came - begun - harness.pool().waiting_sessions();
  auto& large = harness.Add(LongText(priority));
  EXPECT_TRUE(crowd.Run([&] { return !large.output().empty(); }, 200));
  const size_t before = crowd.begun() - begun;
  EXPECT_LE(before, came - begun) << "who came later is not served before";
  EXPECT_TRUE(crowd.Run([&] { return large.ending.has_value(); }, 400));
  ExpectRight(large);
  EXPECT_TRUE(crowd.Run([&] { return crowd.size() > came + 4 * kCrowd; }, 600)) << "it goes on";
  for (auto* request : crowd.requests()) {
    if (request->ending.has_value()) ExpectRight(*request);
  }
  EXPECT_GE(before, have_room);
  return before - have_room;
}

TEST(TargetRoom, ALongTextIsServedInItsTurn) {
  const size_t before = ServedBefore(1, /*priority=*/0);
  EXPECT_GT(before, 0u) << "those in front of it in line";
}

TEST(TargetRoom, ALongTextOfHighPriorityIsNext) { EXPECT_EQ(ServedBefore(1, /*priority=*/10), 0u); }

// It waits for the room of one target. The other one serves the short texts meanwhile, but not
// before those that were in front of it.
TEST(TargetRoom, OneOfTwoTargetsIsEmptiedForIt) {
  PoolHarness harness(2);
  for (size_t i : {0, 1}) harness.target(i).room = kRoom;
  Crowd crowd(harness);
  auto& holder = harness.Add(Text(77, 200));
  ASSERT_TRUE(crowd.Run([&] { return crowd.size() > 2 * kCrowd; }, 100));
  const size_t begun = crowd.begun();
  auto& large = harness.Add(LongText());
  ASSERT_TRUE(crowd.Run([&] { return !large.output().empty(); }, 300));
  EXPECT_GT(crowd.begun(), begun);
  EXPECT_TRUE(
      crowd.Run([&] { return large.ending.has_value() && holder.ending.has_value(); }, 900));
  ExpectRight(large);
  ExpectRight(holder);
}

TEST(TargetRoom, WhoWaitsInVainIsToldOfTheRoom) {
  LoopOptions options;
  options.slot_patience = absl::Seconds(2);
  PoolHarness harness(1, options);
  harness.target(0).room = 1024;
  auto& holder = harness.Add(Text(1, 700));  // 7 s
  harness.Run([&] { return !holder.output().empty(); });
  auto& large = harness.Add(Text(2, 500));
  harness.Run([&] { return large.ending.has_value(); });
  EXPECT_EQ(large.ending->status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(large.ending->status.message()), HasSubstr("room for 505 tokens"));
  harness.Run();
  ExpectRight(holder);
}

// An older target announces its context, though its pool is smaller.
TEST(TargetRoom, WhatATargetCanNeverHoldEndsAtOnce) {
  PoolHarness harness(1);
  harness.target(0).on_step = [](const internal::v1::Step&, internal::v1::Verdict& verdict) {
    verdict.clear_entries();
    verdict.set_status(internal::v1::STATUS_INVALID);
    verdict.mutable_problem()->set_field("options.max_length");
    verdict.mutable_problem()->set_message("it is more than there is room for: 512");
    return WireTarget::Do::kAnswer;
  };
  auto& large = harness.Add(LongText());
  harness.Run();
  EXPECT_EQ(large.ending->status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(large.ending->status.message()), HasSubstr("294 tokens"));
}

}  // namespace
}  // namespace tandem::orchestrator
