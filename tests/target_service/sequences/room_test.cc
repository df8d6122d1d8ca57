// Who gets the room of the pool: long sequences among short ones, of one orchestrator and of
// several. Nobody behaves here as our orchestrator does; the target alone sees to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/target_service/harness.h"

namespace tandem::target_service::room_test {
namespace {

using ::testing::HasSubstr;

const std::vector<uint32_t> kPrompt = {1, 2, 3, 4, 5};
constexpr int64_t kPool = 1024;
constexpr uint32_t kBlock = 16;  // room behind the text

internal::v1::SequenceOptions OptionsFor(uint32_t room, uint32_t priority = 0) {
  internal::v1::SequenceOptions options = SampledOptions();
  options.set_max_length(room - kBlock);
  options.set_priority(priority);
  return options;
}

testing::TableModelOptions Pool(uint32_t context_length = 4096) {
  testing::TableModelOptions model;
  model.context_length = context_length;
  model.pool_tokens = kPool;
  return model;
}

// An orchestrator that holds `hold` short sequences, and opens the next one when one ends. It asks
// for what it was refused again every 50 ms, under the same number.
class Client {
 public:
  Client(Harness& target, const std::string& name, uint32_t room, size_t hold,
         uint32_t priority = 0)
      : target_(target),
        stream_(target.Connect(name)),
        room_(room),
        hold_(hold),
        priority_(priority) {}

  // Ends the oldest sequence, and asks for what it lacks then.
  void Turn() {
    if (!held_.empty()) {
      Harness::Send(stream_, {}, {held_.front()});
      held_.erase(held_.begin());
    }
    while (held_.size() < hold_) {
      if (!Ask(next_, room_, priority_)) break;
      held_.push_back(next_++);
    }
  }
  // Whether it has got the sequence.
  bool Ask(uint64_t sequence, uint32_t room, uint32_t priority = 0) {
    const internal::v1::Verdict verdict =
        target_.Ask(stream_, FirstStep(sequence, kPrompt, {}, OptionsFor(room, priority)));
    if (verdict.status() == internal::v1::STATUS_OK) return true;
    EXPECT_EQ(verdict.status(), internal::v1::STATUS_NO_SLOT) << verdict.ShortDebugString();
    return false;
  }
  void Close(uint64_t sequence) { Harness::Send(stream_, {}, {sequence}); }

  size_t opened() const { return next_ - 1; }
  v1::Load load() const { return stream_.sink->load(); }

 private:
  Harness& target_;
  Harness::Stream stream_;
  const uint32_t room_;
  const size_t hold_;
  const uint32_t priority_;
  uint64_t next_ = 1;
  std::vector<uint64_t> held_;
};

constexpr uint64_t kLong = 1'000'000;  // a sequence's number
constexpr int kNever = 100;

// Turns of all until the long one is served.
int TurnsUntilServed(Harness& target, const std::vector<Client*>& crowd, Client& owner,
                     uint32_t room, uint32_t priority = 0) {
  for (int turn = 0; turn < kNever; ++turn) {
    if (owner.Ask(kLong, room, priority)) return turn;
    for (Client* client : crowd) client->Turn();
    target.clock.Advance(absl::Milliseconds(50));
  }
  return kNever;
}

void Settle(Harness& target, const std::vector<Client*>& crowd) {
  for (int turn = 0; turn < 10; ++turn) {
    for (Client* client : crowd) client->Turn();
    target.clock.Advance(absl::Milliseconds(50));
  }
}

TEST(TargetRoom, ALongSequenceIsNotStarvedByShortOnesOfItsOwnStream) {
  for (uint32_t room : {600u, static_cast<uint32_t>(kPool)}) {
    Harness target({}, Pool());
    Client client(target, "one", 200, 5);
    Settle(target, {&client});
    const size_t before = client.opened();
    EXPECT_LE(TurnsUntilServed(target, {&client}, client, room), 5) << room;
    EXPECT_EQ(client.opened(), before) << "short ones that came later wait";
    client.Close(kLong);
    target.RunAll();
    client.Turn();
    EXPECT_GT(client.opened(), before) << "and go on when it has ended";
  }
}

TEST(TargetRoom, ShortOnesOfHigherPriorityGoFirst) {
  Harness target({}, Pool());
  Client urgent(target, "one", 200, 5, /*priority=*/5);
  Settle(target, {&urgent});
  EXPECT_EQ(TurnsUntilServed(target, {&urgent}, urgent, 600), kNever);
  EXPECT_LE(TurnsUntilServed(target, {&urgent}, urgent, 600, /*priority=*/10), 5);
}

TEST(TargetRoom, ALongSequenceIsNotStarvedByOtherOrchestrators) {
  Harness target({}, Pool());
  Client owner(target, "owner", 200, 0);
  Client many(target, "many", 200, 3);
  Client few(target, "few", 100, 1);  // it never holds its share
  Client tiny(target, "tiny", 30, 1);
  Settle(target, {&many, &few, &tiny});
  EXPECT_LE(TurnsUntilServed(target, {&many, &few, &tiny}, owner, kPool), 6);
  const size_t opened = many.opened() + few.opened() + tiny.opened();
  owner.Close(kLong);
  target.RunAll();
  Settle(target, {&many, &few, &tiny});
  EXPECT_GT(many.opened() + few.opened() + tiny.opened(), opened);
}

TEST(TargetRoom, WhoStopsAskingOrClosesIsNotWaitedFor) {
  Harness target({}, Pool());
  Client client(target, "one", 200, 5);
  Settle(target, {&client});
  ASSERT_FALSE(client.Ask(kLong, 600));
  client.Close(kLong);
  const size_t before = client.opened();
  client.Turn();
  EXPECT_EQ(client.opened(), before + 1);
  ASSERT_FALSE(client.Ask(kLong, 600));
  target.clock.Advance(absl::Seconds(1));
  client.Turn();
  EXPECT_EQ(client.opened(), before + 2);
}

TEST(TargetRoom, RoomIsTold) {
  Harness target({}, Pool());
  Client one(target, "one", 200, 5);
  Client two(target, "two", 200, 5);
  ASSERT_TRUE(one.Ask(1, 200));
  EXPECT_EQ(one.load().free_tokens(), 824u);
  ASSERT_FALSE(two.Ask(1, 1000));
  EXPECT_EQ(two.load().free_tokens(), 824u) << "its own wish is kept for it";
  ASSERT_FALSE(one.Ask(2, 200));
  EXPECT_EQ(one.load().free_tokens(), 0u) << "there is room, but it is kept for another one";
  EXPECT_EQ(target.device->load().free_tokens(), 824u) << "of anybody";

  Harness endless;
  Client any(endless, "one", 200, 1);
  ASSERT_TRUE(any.Ask(1, 200));
  EXPECT_FALSE(any.load().has_free_tokens()) << "this model does not say";
}

// What is kept has whole pages.
TEST(TargetRoom, PagesAreKeptWhole) {
  testing::TableModelOptions model = Pool();
  model.page_tokens = 256;
  Harness target({}, model);
  Client one(target, "one", 200, 0);
  Client two(target, "two", 200, 0);
  ASSERT_TRUE(one.Ask(1, 400));
  ASSERT_FALSE(one.Ask(kLong, 600));
  one.Close(1);
  target.RunAll();
  EXPECT_FALSE(two.Ask(1, 300))
      << "1024 tokens are free, but these are two pages, and 600 are three";
  EXPECT_TRUE(two.Ask(1, 200));
  EXPECT_TRUE(one.Ask(kLong, 600));
}

// What lingers gives way, so its room is free.
TEST(TargetRoom, WhatLingersIsFreeRoom) {
  Harness target({}, Pool());
  auto broken = target.Connect("broken");
  ASSERT_EQ(target.Ask(broken, FirstStep(1, kPrompt, {}, OptionsFor(800))).status(),
            internal::v1::STATUS_OK);
  auto one = target.Connect("one");
  ASSERT_EQ(target.Ask(one, FirstStep(1, kPrompt, {}, OptionsFor(200))).status(),
            internal::v1::STATUS_OK);
  EXPECT_EQ(one.sink->load().free_tokens(), 24u);
  broken.session->OnDone(absl::CancelledError("cut"));
  target.RunAll();
  ASSERT_EQ(target.Ask(one, MakeStep(2, 1, kPrompt, 3)).status(), internal::v1::STATUS_NEED_PREFIX);
  EXPECT_EQ(one.sink->load().free_tokens(), 824u);
  EXPECT_EQ(target.device->active_sequences(), 2u) << "it is still there";
}

TEST(TargetRoom, ASequenceMayHaveTheWholePoolAndNoMore) {
  Harness target({}, Pool());
  auto stream = target.Connect();
  EXPECT_EQ(stream.sink->welcome()->limits().context_length(), 4096u);
  EXPECT_EQ(stream.sink->welcome()->limits().max_length(), 1024u);
  internal::v1::SequenceOptions options = SampledOptions();
  options.set_max_length(1025);
  internal::v1::Verdict verdict = target.Ask(stream, FirstStep(1, kPrompt, {}, options));
  EXPECT_EQ(verdict.status(), internal::v1::STATUS_INVALID);
  EXPECT_EQ(verdict.problem().field(), "options.max_length");
  EXPECT_THAT(verdict.problem().message(), HasSubstr("1025 is above the 1024 tokens"));

  // To its last token, as a context may be filled.
  options.set_max_length(1024);
  std::vector<uint32_t> text(1020, 1);
  ASSERT_EQ(target.Ask(stream, FirstStep(1, text, {{1, 2, 3, 4}}, options)).status(),
            internal::v1::STATUS_OK);
  verdict = target.Ask(stream, MakeStep(1, 2, text, 1020, {{1, 2, 3, 4, 5}}));
  EXPECT_EQ(verdict.problem().field(), "candidates");
  text.resize(1025, 1);
  EXPECT_EQ(target.Ask(stream, MakeStep(1, 3, text, 1020)).problem().field(), "prefix");
  verdict = target.Ask(stream, FirstStep(2, kPrompt));
  EXPECT_EQ(verdict.status(), internal::v1::STATUS_NO_SLOT);
  EXPECT_THAT(verdict.problem().message(), HasSubstr("room for 0 of 1024 tokens"));

  Harness small({}, Pool(256));
  EXPECT_EQ(small.Connect().sink->welcome()->limits().max_length(), 256u);
}

}  // namespace
}  // namespace tandem::target_service::room_test
