// Drafts that come and go, and those that are left alone for a while.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/draft/draft_services.h"
#include "tests/support/log_lines.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kNone = absl::ZeroDuration();

TEST(DraftMembers, NoDraftIsNoErrorAndOneThatComesIsUsed) {
  Fixture f(0, 1);
  auto session = f.Session();
  EXPECT_EQ(f.TryOpen(*session), Fixture::kNowhere);
  EXPECT_EQ(f.events->lost, 1) << "an Open is always answered";
  EXPECT_EQ(f.events->last_reason, "no address of a draft is known");
  EXPECT_EQ(session->GiveUp(DraftLoss::kLost, kNone), NextDraft::kLater);
  f.Set({}, {"draft drafts:1: no host drafts"});
  EXPECT_EQ(f.TryOpen(*session, 2), Fixture::kNowhere);
  EXPECT_EQ(f.events->last_reason, "draft drafts:1: no host drafts");
  EXPECT_EQ(session->GiveUp(DraftLoss::kLost, kNone), NextDraft::kLater);
  session->Advance({});
  session->Submitted(base::BlockId{1}, 1);
  session->Close();
  EXPECT_TRUE(f.pool->Peers().empty());
  EXPECT_EQ(f.pool->model_id(), "");
  f.Set({0});
  EXPECT_EQ(f.Open(*session, 3), 0u);
  EXPECT_EQ(f.events->lost, 2);
}

TEST(DraftMembers, OneThatLeavesKeepsWhatRunsThereAndGetsNothingNew) {
  testing::LogRecorder log;
  Fixture f(1, 2);
  auto running = f.Session();
  f.Open(*running);
  f.services[0].Welcome("small");
  f.Set({1});
  ASSERT_EQ(f.pool->Peers().size(), 2u);
  EXPECT_EQ(f.pool->Peers()[0].address(), "b:1") << "the list's come first";
  EXPECT_FALSE(f.pool->Peers()[0].leaving());
  EXPECT_EQ(f.pool->Peers()[1].address(), "a:1");
  EXPECT_EQ(f.pool->Peers()[1].name(), "drafts:1");
  EXPECT_TRUE(f.pool->Peers()[1].leaving());
  std::vector<std::unique_ptr<DraftSession>> others;
  for (int i = 0; i < 8; ++i) {
    others.push_back(f.Session());
    EXPECT_EQ(f.Open(*others.back()), 1u) << "though it has the shorter queue";
  }
  EXPECT_EQ(f.events->lost, 0) << "what runs there runs on";
  f.services[0].Answer();
  // Its stream breaks: not there again.
  f.services[0].Cut();
  EXPECT_EQ(f.events->lost, 1);
  EXPECT_EQ(running->GiveUp(DraftLoss::kLost, kNone), NextDraft::kNow);
  EXPECT_EQ(f.Open(*running, 2), 1u);
  f.Set({1});
  ASSERT_EQ(f.pool->Peers().size(), 1u) << "nothing runs there any more";
  EXPECT_EQ(f.pool->model_id(), "small") << "of one that has left";
  EXPECT_EQ(running->GiveUp(DraftLoss::kLost, kNone), NextDraft::kLater);
  std::vector<std::string> texts;
  for (const testing::LogLine& line : log.Lines()) {
    if (line.event != "peer_up" && line.event != "peer_lost") texts.push_back(line.text);
  }
  ASSERT_GE(texts.size(), 5u);
  EXPECT_EQ(texts[0], "peer_found peer=a:1 kind=draft name=drafts:1");
  EXPECT_EQ(texts[1], "peer_found peer=b:1 kind=draft name=drafts:1");
  EXPECT_EQ(texts[2], "peer_leaving peer=a:1 kind=draft name=drafts:1 sequences=1");
  EXPECT_EQ(log.Of("peer_left").size(), 1u);
  EXPECT_NE(f.events->last_reason.find("cut"), std::string::npos);
}

TEST(DraftMembers, TheLastOneThatLeavesIsNotOpenedAgain) {
  Fixture f(1);
  auto running = f.Session();
  f.Open(*running);
  f.Set({});
  EXPECT_EQ(running->GiveUp(DraftLoss::kRefused, kNone), NextDraft::kLater)
      << "another one may come";
  EXPECT_EQ(f.TryOpen(*running, 2), Fixture::kNowhere);
}

// Indices shift, ids do not.
TEST(DraftMembers, ARefusalIsOfADraftNotOfItsPlace) {
  Fixture f(2, 3);
  auto session = f.Session();
  const size_t at = f.Open(*session);
  f.services[at].Welcome("small");
  EXPECT_EQ(session->GiveUp(DraftLoss::kRefused, kNone), NextDraft::kNow);
  const size_t other = 1 - at;
  f.Set({2, at});  // the other one has left, and a new one stands in the first place
  EXPECT_EQ(f.Open(*session, 2), 2u);
  f.services[2].Welcome("small");
  EXPECT_EQ(session->GiveUp(DraftLoss::kRefused, kNone), NextDraft::kNever);
  f.Set({2, at, other});
  EXPECT_EQ(session->GiveUp(DraftLoss::kRefused, kNone), NextDraft::kNow);
  EXPECT_EQ(f.Open(*session, 3), other);
}

TEST(DraftMembers, OnlyAnAnswerEndsAnEjectionAndEachIsLongerThanTheLast) {
  testing::LogRecorder log;
  Fixture f(2);
  auto session = f.Session();
  const size_t bad = f.Open(*session);
  f.services[bad].Welcome("small");
  absl::Duration last = kNone;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(session->GiveUp(DraftLoss::kLost, kNone), NextDraft::kNow);
    EXPECT_TRUE(f.pool->Peers()[bad].ejected());
    EXPECT_EQ(f.pool->Peers()[bad].ejections(), static_cast<uint64_t>(i) + 1);
    absl::Duration left = kNone;
    for (; f.pool->Peers()[bad].ejected(); left += absl::Milliseconds(1)) {
      f.clock.Advance(absl::Milliseconds(1));
    }
    EXPECT_GT(left, last);
    last = left;
    // The other one has the longer queue.
    f.services[bad].ReportQueue(0);
    std::vector<std::unique_ptr<DraftSession>> others;
    for (int tries = 0; tries < 50; ++tries) {
      if (f.Open(*session, 2) == bad) break;
      others.push_back(f.Session());
      f.Open(*others.back());
    }
    f.services[bad].Welcome("small");
  }
  EXPECT_EQ(log.Of("peer_ejected").size(), 1u) << "told once until it works again";
  f.services[bad].Answer();
  EXPECT_EQ(session->GiveUp(DraftLoss::kLost, kNone), NextDraft::kNow);
  EXPECT_EQ(log.Of("peer_ejected").size(), 2u);
  f.clock.Advance(absl::Milliseconds(25));
  EXPECT_FALSE(f.pool->Peers()[bad].ejected()) << "the first again";
}

TEST(DraftMembers, TheConnectedOnesTellTheirDrafters) {
  Fixture f(3);
  EXPECT_TRUE(f.pool->drafters().empty()) << "nobody has greeted yet";
  // One after the other is made the only one that may be asked, so that each greets.
  std::vector<std::unique_ptr<DraftSession>> sessions;
  const auto greet = [&](size_t i, const std::vector<std::string>& drafters) {
    f.Set({i});
    sessions.push_back(f.Session());
    ASSERT_EQ(f.Open(*sessions.back()), i);
    f.services[i].Welcome("small", drafters);
  };
  greet(0, {});
  EXPECT_TRUE(f.pool->drafters().empty()) << "one that does not say";
  greet(1, {"model", "prompt-lookup"});
  greet(2, {"prompt-lookup", "other"});
  EXPECT_THAT(f.pool->drafters(), ElementsAre("prompt-lookup", "other"))
      << "the others are leaving";
  f.Set({0, 1, 2});
  EXPECT_THAT(f.pool->drafters(), ElementsAre("model", "prompt-lookup", "other"));
  f.services[1].Cut();
  EXPECT_THAT(f.pool->drafters(), ElementsAre("prompt-lookup", "other"))
      << "it is connected no more";
}

TEST(DraftMembers, AFullOneIsLeftAloneAndDidNotFail) {
  Fixture f(2);
  auto session = f.Session();
  const size_t full = f.Open(*session);
  EXPECT_EQ(session->GiveUp(DraftLoss::kLost, absl::Milliseconds(500)), NextDraft::kNow);
  EXPECT_EQ(f.pool->Peers()[full].ejections(), 0u);
  std::vector<std::unique_ptr<DraftSession>> others;
  for (int i = 0; i < 4; ++i) {
    others.push_back(f.Session());
    EXPECT_EQ(f.Open(*others.back()), 1 - full);
  }
  f.clock.Advance(absl::Milliseconds(501));
  EXPECT_EQ(f.Open(*session, 2), full);
}

}  // namespace
}  // namespace tandem::orchestrator
