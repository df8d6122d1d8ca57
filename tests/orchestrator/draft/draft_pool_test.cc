// Which request goes to which draft, and what happens to those whose draft is lost.
#include "orchestrator/draft/draft_pool.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/orchestrator/draft/draft_services.h"
#include "tests/orchestrator/harness/loop_harness.h"

namespace tandem::orchestrator {
namespace {

TEST(DraftPool, SequencesAreSpread) {
  Fixture f(2);
  std::vector<std::unique_ptr<DraftSession>> sessions;
  size_t at_a = 0;
  for (int i = 0; i < 8; ++i) {
    sessions.push_back(f.Session());
    at_a += f.Open(*sessions.back()) == 0 ? 1 : 0;
  }
  EXPECT_EQ(at_a, 4u);
  EXPECT_EQ(f.pool->Peers()[0].sequences(), 4u);
  sessions.clear();
  EXPECT_EQ(f.pool->Peers()[0].sequences(), 0u);
  EXPECT_EQ(f.pool->Peers()[1].sequences(), 0u);
}

TEST(DraftPool, TheReportedQueueCountsMore) {
  Fixture f(2);
  auto first = f.Session();
  const size_t busy = f.Open(*first);
  f.services[busy].Welcome("small");
  f.services[busy].ReportQueue(30);
  std::vector<std::unique_ptr<DraftSession>> sessions;
  for (int i = 0; i < 4; ++i) {
    sessions.push_back(f.Session());
    EXPECT_EQ(f.Open(*sessions.back()), 1 - busy);
  }
  f.services[busy].ReportQueue(0);
  sessions.push_back(f.Session());
  EXPECT_EQ(f.Open(*sessions.back()), busy);
  EXPECT_EQ(f.pool->model_id(), "small");
  const v1::Peer peer = f.pool->Peers()[busy];
  EXPECT_EQ(peer.role(), v1::Peer::ROLE_DRAFT);
  EXPECT_TRUE(peer.ready());
  EXPECT_EQ(peer.load().queued_rows(), 0u);
  EXPECT_FALSE(f.pool->Peers()[1 - busy].ready()) << "it has not greeted anybody";
}

TEST(DraftPool, ALostDraftIsReplacedAtOnceAndLeftAloneForAWhile) {
  Fixture f(2);
  auto session = f.Session();
  const size_t lost = f.Open(*session);
  f.services[lost].Welcome("small");
  f.services[lost].streams.back()->handler->OnDone(absl::UnavailableError("cut"));
  EXPECT_EQ(f.events->lost, 1);
  EXPECT_EQ(session->GiveUp(DraftLoss::kLost, absl::ZeroDuration()), NextDraft::kNow);
  EXPECT_EQ(f.Open(*session, 2), 1 - lost);
  std::vector<std::unique_ptr<DraftSession>> sessions;
  for (int i = 0; i < 4; ++i) {
    sessions.push_back(f.Session());
    EXPECT_EQ(f.Open(*sessions.back()), 1 - lost) << "others know of it";
  }
  f.clock.Advance(absl::Milliseconds(10));
  // The other one fails, too: a back-off is called for, and the first to fail is the first to be
  // tried.
  EXPECT_EQ(session->GiveUp(DraftLoss::kLost, absl::ZeroDuration()), NextDraft::kLater);
  EXPECT_EQ(f.Open(*session, 3), lost);
  EXPECT_EQ(f.pool->Peers()[lost].ready(), false);
  EXPECT_NE(f.pool->Peers()[lost].problem().find("cut"), std::string::npos);
  // It greets somebody, which proves nothing; then it answers somebody: it is back, whatever the
  // time.
  f.services[lost].Welcome("small");
  EXPECT_EQ(sessions[0]->GiveUp(DraftLoss::kLost, absl::ZeroDuration()), NextDraft::kLater);
  f.services[lost].Answer();
  EXPECT_EQ(sessions[0]->GiveUp(DraftLoss::kLost, absl::ZeroDuration()), NextDraft::kNow);
  f.clock.Advance(absl::Seconds(3));
  sessions.clear();
  std::vector<int> opened(2, 0);
  for (int i = 0; i < 4; ++i) {
    sessions.push_back(f.Session());
    ++opened[f.Open(*sessions.back())];
  }
  EXPECT_GT(opened[1 - lost], 0) << "it was left alone long enough";
}

TEST(DraftPool, ARefusalIsTheRequestsOwnAndEndsWithTheLastDraft) {
  Fixture f(3);
  auto session = f.Session();
  std::vector<bool> asked(3, false);
  for (uint64_t attempt = 1; attempt <= 3; ++attempt) {
    const size_t at = f.Open(*session, attempt);
    f.services[at].Welcome("small");
    EXPECT_FALSE(asked[at]) << "one that has refused is not asked again";
    asked[at] = true;
    EXPECT_EQ(session->GiveUp(DraftLoss::kRefused, absl::ZeroDuration()),
              attempt < 3 ? NextDraft::kNow : NextDraft::kNever);
  }
  auto other = f.Session();
  f.Open(*other);
  EXPECT_EQ(other->GiveUp(DraftLoss::kLost, absl::ZeroDuration()), NextDraft::kNow)
      << "the others did not fail";
}

// ---- the loop ----

// At temperature 1, where a round that was lost or counted twice would show.
TEST(ManyDrafts, ALostDraftIsReplacedInMidRequest) {
  for (bool refused : {false, true}) {
    LoopHarness harness(SmallRequest(4, 1.0));
    harness.draft.others = 1;
    harness.draft.on_advance = [&](const DraftAdvance&, DraftReplyBlock& reply) {
      if (harness.draft.advances == 3) {
        reply.status = refused ? DraftReplyBlock::Status::kRefused : DraftReplyBlock::Status::kGone;
      }
      return FakeDraft::Do::kAnswer;
    };
    harness.Start();
    while (!harness.ending.has_value()) {
      ASSERT_TRUE(harness.DeliverOne() || harness.FireNextTimer());
      EXPECT_FALSE(harness.timers.is_set(LoopTimer::kDraftReopen)) << "no back-off";
    }
    ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
    EXPECT_EQ(harness.draft.opens, 2);
    EXPECT_EQ(harness.ending->counts.draft_reconnections, 1u);
    EXPECT_EQ(harness.ending->counts.rounds,
              harness.ending->counts.plain_rounds[static_cast<int>(PlainCause::kFirstRound)] +
                  harness.draft.submitted + 1u + harness.plain_rounds(PlainCause::kPolicyZero));
    EXPECT_EQ(harness.plain_rounds(refused ? PlainCause::kDraftRefused : PlainCause::kDraftLost),
              1u);
  }
}

TEST(ManyDrafts, GreedyIdsAreTheTargetsWhateverDraftsComeAndGo) {
  LoopHarness harness(SmallRequest(4));
  harness.draft.others = 2;
  harness.draft.on_advance = [&](const DraftAdvance&, DraftReplyBlock&) {
    if (harness.draft.advances % 3 == 0) harness.draft.Break();
    return harness.draft.is_open ? FakeDraft::Do::kAnswer : FakeDraft::Do::kDrop;
  };
  harness.Start();
  harness.Run();
  ASSERT_TRUE(harness.ending->status.ok()) << harness.ending->status;
  EXPECT_EQ(harness.output(), harness.PlainIds());
  EXPECT_GE(harness.ending->counts.draft_reconnections, 2u);
  EXPECT_GT(harness.ending->counts.accepted_tokens, 0u);
}

}  // namespace
}  // namespace tandem::orchestrator
