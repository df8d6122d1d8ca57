// The link to a draft by itself: what it tells the draft, what it takes for an answer, and when it
// opens another one.
#include "orchestrator/draft/draft_link.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator {
namespace {

using State = DraftLink::State;

// Writes down what it is told.
struct WrittenSession final : DraftSession {
  void Open(const DraftOpen& open) override { opens.push_back(open); }
  void Advance(const DraftAdvance& advance) override { advances.push_back(advance); }
  void Submitted(base::BlockId block_id, uint32_t) override { submitted.push_back(block_id); }
  void Close() override { ++closings; }
  NextDraft GiveUp(DraftLoss loss, absl::Duration at_least) override {
    given_up.emplace_back(loss, at_least);
    return next;
  }

  NextDraft next = NextDraft::kLater;
  std::vector<DraftOpen> opens;
  std::vector<DraftAdvance> advances;
  std::vector<base::BlockId> submitted;
  std::vector<std::pair<DraftLoss, absl::Duration>> given_up;
  int closings = 0;
};

class DraftLinkTest : public ::testing::Test {
 protected:
  DraftLinkTest()
      : request_(InScope("chat")),
        committed_(request_.prompt),
        timers_(clock_),
        link_(request_, options_, committed_, &session_, timers_, clock_, observer_) {}

  static GenerationRequest InScope(const std::string& scope) {
    GenerationRequest request = SmallRequest();
    request.cache_scope = scope;
    return request;
  }

  void OpenAndGreet() {
    link_.Open();
    ASSERT_TRUE(link_.OnOpened(link_.attempt(), {6, 20}));
  }
  bool Ask() { return link_.Ask({4}, absl::Milliseconds(30), absl::Milliseconds(40)); }

  const GenerationRequest request_;
  LoopOptions options_;
  CommittedTokens committed_;
  testing::FakeClock clock_;
  FakeLoopTimers timers_;
  WrittenSession session_;
  RoundObserver observer_;
  DraftLink link_;
};

TEST_F(DraftLinkTest, ADraftIsToldEachCommittedTokenOnce) {
  OpenAndGreet();
  EXPECT_EQ(session_.opens[0].prefix.tokens, request_.prompt);
  EXPECT_EQ(session_.opens[0].settings.cache_scope, "chat");
  EXPECT_EQ(link_.limits().max_draft_tokens, 6u);
  ASSERT_TRUE(Ask());
  EXPECT_EQ(session_.advances[0].prefix.keep, 5u);
  EXPECT_TRUE(session_.advances[0].prefix.tokens.empty());
  EXPECT_EQ(session_.advances[0].prefix.hash, committed_.hash());
  ASSERT_TRUE(link_.OnAnswer(base::DraftAttempt{1}, 1).has_value());
  committed_.Append(7);
  ASSERT_TRUE(Ask());
  EXPECT_EQ(session_.advances[1].prefix.keep, 5u);
  EXPECT_EQ(session_.advances[1].prefix.tokens, std::vector<uint32_t>{7});
  ASSERT_TRUE(link_.OnAnswer(base::DraftAttempt{1}, 2).has_value());
  // It lost some of them.
  link_.HoldsOnly(2);
  ASSERT_TRUE(Ask());
  EXPECT_EQ(session_.advances[2].prefix.keep, 2u);
  EXPECT_EQ(session_.advances[2].prefix.tokens, (std::vector<uint32_t>{3, 4, 5, 7}));
}

TEST_F(DraftLinkTest, ADraftIsNotBelievedToHoldMoreThanItWasTold) {
  OpenAndGreet();
  ASSERT_TRUE(Ask());
  ASSERT_TRUE(link_.OnAnswer(base::DraftAttempt{1}, 1).has_value());
  committed_.Append(7);
  committed_.Append(8);
  link_.HoldsOnly(7);
  ASSERT_TRUE(Ask());
  EXPECT_EQ(session_.advances[1].prefix.keep, 5u);
  EXPECT_EQ(session_.advances[1].prefix.tokens, (std::vector<uint32_t>{7, 8}));
}

// A round that went well ends the trouble: the next loss waits as long as the first one did.
TEST_F(DraftLinkTest, GoodWorkResetsTheBackOff) {
  OpenAndGreet();
  absl::Duration last;
  for (int i = 0; i < 6; ++i) {
    link_.GiveUp(DraftLoss::kLost, PlainCause::kDraftLost);
    last = timers_.left(LoopTimer::kDraftReopen);
    link_.OnReopen();
  }
  EXPECT_GT(last, 4 * options_.backoff_min);
  ASSERT_TRUE(link_.OnOpened(link_.attempt(), {6, 20}));
  link_.Decided({});
  link_.GiveUp(DraftLoss::kLost, PlainCause::kDraftLost);
  EXPECT_LT(timers_.left(LoopTimer::kDraftReopen), 2 * options_.backoff_min);
}

TEST_F(DraftLinkTest, WhatDoesNotFitIntoOneMessageIsNotAskedFor) {
  options_.max_prefix_tokens = 3;
  OpenAndGreet();
  EXPECT_EQ(session_.opens[0].prefix.tokens.size(), 3u);
  committed_.Append(7);
  committed_.Append(8);
  EXPECT_FALSE(Ask());
  EXPECT_TRUE(session_.advances.empty());
  EXPECT_EQ(link_.state(), State::kReady);
  EXPECT_EQ(link_.round(), 0u);
}

TEST_F(DraftLinkTest, OnlyTheAnswerThatIsWaitedForCounts) {
  link_.Open();
  EXPECT_FALSE(link_.OnOpened(base::DraftAttempt{2}, {})) << "of no attempt yet";
  EXPECT_TRUE(link_.OnOpened(base::DraftAttempt{1}, {}));
  EXPECT_FALSE(link_.OnOpened(base::DraftAttempt{1}, {})) << "twice";
  EXPECT_FALSE(link_.OnAnswer(base::DraftAttempt{1}, 1).has_value()) << "nothing was asked";
  ASSERT_TRUE(Ask());
  clock_.Advance(absl::Milliseconds(3));
  EXPECT_FALSE(link_.OnAnswer(base::DraftAttempt{1}, 0).has_value());
  EXPECT_FALSE(link_.OnAnswer(base::DraftAttempt{2}, 1).has_value());
  EXPECT_EQ(link_.state(), State::kAsked);
  EXPECT_EQ(link_.OnAnswer(base::DraftAttempt{1}, 1), absl::Milliseconds(3));
  EXPECT_FALSE(link_.OnAnswer(base::DraftAttempt{1}, 1).has_value()) << "twice";
  EXPECT_EQ(link_.state(), State::kReady);
  EXPECT_FALSE(link_.OnLost(base::DraftAttempt{2}, DraftLoss::kLost).has_value());
  EXPECT_EQ(link_.OnLost(base::DraftAttempt{1}, DraftLoss::kLost), PlainCause::kDraftLost);
  EXPECT_FALSE(link_.OnLost(base::DraftAttempt{1}, DraftLoss::kLost).has_value())
      << "it is down already";
}

TEST_F(DraftLinkTest, HowABlockEndedGoesWithTheNextAdvanceOfTheSameDraft) {
  OpenAndGreet();
  ASSERT_TRUE(Ask());
  ASSERT_TRUE(link_.OnAnswer(base::DraftAttempt{1}, 1).has_value());
  link_.Submitted({.id = base::BlockId{9}, .tokens = {1}, .q = {}});
  EXPECT_EQ(session_.submitted, std::vector{base::BlockId{9}});
  link_.Decided({base::BlockId{9}, 1, 3});
  ASSERT_TRUE(Ask());
  ASSERT_TRUE(session_.advances[1].outcome.has_value());
  EXPECT_EQ(session_.advances[1].outcome->block_id, base::BlockId{9});
  ASSERT_TRUE(link_.OnAnswer(base::DraftAttempt{1}, 2).has_value());
  link_.Decided({base::BlockId{10}, 0, 3});
  session_.next = NextDraft::kNow;
  link_.GiveUp(DraftLoss::kLost, PlainCause::kDraftLost);
  ASSERT_TRUE(link_.OnOpened(base::DraftAttempt{2}, {}));
  ASSERT_TRUE(Ask());
  EXPECT_FALSE(session_.advances[2].outcome.has_value()) << "another draft knows no block 10";
  EXPECT_EQ(session_.advances[2].round, 1u);
  EXPECT_EQ(link_.reconnections(), 1u);
}

TEST_F(DraftLinkTest, AnotherDraftIsOpenedAtOnceOrLaterOrNever) {
  OpenAndGreet();
  session_.next = NextDraft::kNow;
  link_.GiveUp(DraftLoss::kLost, PlainCause::kDraftLost);
  EXPECT_EQ(session_.opens.size(), 2u);
  EXPECT_EQ(session_.opens[1].attempt, base::DraftAttempt{2});
  EXPECT_EQ(session_.opens[1].prefix.tokens, request_.prompt) << "all of it again";
  EXPECT_FALSE(timers_.is_set(LoopTimer::kDraftReopen));

  session_.next = NextDraft::kLater;
  link_.GiveUp(DraftLoss::kLost, PlainCause::kDraftInvalid, absl::Milliseconds(700));
  EXPECT_EQ(link_.absent(), PlainCause::kDraftInvalid);
  EXPECT_GE(timers_.left(LoopTimer::kDraftReopen), absl::Milliseconds(700));
  EXPECT_EQ(session_.given_up.back().second, absl::Milliseconds(700));
  link_.OnReopen();
  EXPECT_EQ(link_.state(), State::kOpening);
  EXPECT_FALSE(link_.absent().has_value());
  // Nobody is left alone for longer than this side would do by itself.
  link_.GiveUp(DraftLoss::kLost, PlainCause::kDraftLost, absl::Hours(1));
  EXPECT_EQ(session_.given_up.back().second, options_.backoff_max);
  EXPECT_LE(timers_.left(LoopTimer::kDraftReopen), options_.backoff_max);

  link_.OnReopen();
  session_.next = NextDraft::kNever;
  EXPECT_EQ(link_.OnLost(base::DraftAttempt{4}, DraftLoss::kRefused), PlainCause::kDraftRefused);
  EXPECT_EQ(link_.absent(), PlainCause::kDraftRefused);
  const size_t opens = session_.opens.size();
  link_.Open();
  link_.OnReopen();
  EXPECT_EQ(session_.opens.size(), opens);
}

TEST_F(DraftLinkTest, AClosedLinkHearsNothingUntilItIsOpenedAgain) {
  OpenAndGreet();
  ASSERT_TRUE(Ask());
  link_.Close();
  link_.Close();
  EXPECT_EQ(session_.closings, 1);
  EXPECT_EQ(link_.absent(), PlainCause::kOff);
  EXPECT_FALSE(link_.OnAnswer(base::DraftAttempt{1}, 1).has_value());
  EXPECT_FALSE(link_.OnLost(base::DraftAttempt{1}, DraftLoss::kLost).has_value());
  link_.Open();
  EXPECT_TRUE(link_.OnOpened(base::DraftAttempt{2}, {}));
}

TEST_F(DraftLinkTest, OneThatOwesNothingIsNeverSilent) {
  OpenAndGreet();
  clock_.Advance(absl::Hours(1));
  link_.GiveUpIfSilent();
  EXPECT_TRUE(session_.given_up.empty());
  ASSERT_TRUE(Ask());
  clock_.Advance(options_.draft_silence);
  link_.GiveUpIfSilent();
  EXPECT_TRUE(session_.given_up.empty()) << "to the last moment";
  clock_.Advance(absl::Milliseconds(50));
  link_.GiveUpIfSilent();
  ASSERT_EQ(session_.given_up.size(), 1u);
  EXPECT_EQ(session_.given_up[0].first, DraftLoss::kLost);
}

// ---- the jitter ----

// How long a loop waits before it tries again, each of its first times, when no draft can be
// reached.
std::vector<absl::Duration> Delays(const GenerationRequest& request) {
  LoopHarness harness(request);
  harness.draft.unreachable = true;
  harness.Start();
  std::vector<absl::Duration> delays;
  while (delays.size() < 3) {
    while (!harness.timers.is_set(LoopTimer::kDraftReopen)) {
      TANDEM_CHECK(harness.DeliverOne()) << "nothing will set it";
    }
    delays.push_back(harness.timers.left(LoopTimer::kDraftReopen));
    harness.timers.Cancel(LoopTimer::kDraftReopen);
    harness.loop->OnTimer(LoopTimer::kDraftReopen);
  }
  return delays;
}

TEST(DraftRetry, EqualSeedsDoNotRetryAtTheSameInstant) {
  GenerationRequest first = SmallRequest();
  first.max_tokens = 2000;
  GenerationRequest second = first;
  second.retry_seed = 1;
  GenerationRequest sample = first;
  sample.sample_index = 1;
  ASSERT_EQ(first.seed, second.seed);
  const std::vector<absl::Duration> delays = Delays(first);
  for (const GenerationRequest& other : {second, sample}) {
    const std::vector<absl::Duration> others = Delays(other);
    for (size_t i = 0; i < delays.size(); ++i) {
      EXPECT_GT(absl::AbsDuration(others[i] - delays[i]), absl::Microseconds(10)) << i;
    }
  }
  // And the seed of the text plays no part.
  GenerationRequest reseeded = first;
  reseeded.seed = 43;
  EXPECT_EQ(Delays(reseeded), delays);
}

}  // namespace
}  // namespace tandem::orchestrator
