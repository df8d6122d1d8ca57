// A draft that does not fit is found out before a request comes, and is not used.
#include "orchestrator/draft/draft_greeting.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/peers/refusal_counts.h"
#include "tests/orchestrator/draft/draft_services.h"
#include "tests/support/fake_clock.h"
#include "tests/support/log_lines.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kOther[] = "draft a:1 does not fit: it has the tokenizer sha256:9";

// Drafts of a pool, each with a greeting. The test answers what they ask.
struct GreetedDrafts {
  using Answer = std::function<void(absl::StatusOr<v1::DescribeReply>)>;

  explicit GreetedDrafts(size_t drafts) : services(drafts), questions(drafts) {
    pool = std::make_shared<DraftPool>(
        [this](const PeerAddress& peer) {
          const size_t i = static_cast<size_t>(peer.address[0] - 'a');
          // The tokenizer's id is the whole check.
          const CheckWelcome check = refusals->Counted(
              v1::Peer::ROLE_DRAFT, peer.address,
              [](const v1::Welcome& welcome, std::function<void(absl::Status)> done) {
                done(welcome.tokenizer_id() == "sha256:1" ? absl::OkStatus()
                                                          : absl::FailedPreconditionError(kOther));
              });
          auto client = std::make_shared<DraftClient>(peer, internal::v1::Hello(),
                                                      services[i].Opener(), check);
          const auto greeting = std::make_shared<DraftGreeting>(
              client,
              [this, i](const v1::DescribeRequest&, Answer answer) {
                questions[i].push_back(std::move(answer));
              },
              check, timers, DraftGreetingOptions());
          greetings.push_back(greeting);
          greeting->Start();
          return client;
        },
        clock, DraftPoolOptions{absl::Milliseconds(20), absl::Seconds(2), 3});
    PeerList list;
    for (size_t i = 0; i < drafts; ++i) list.peers.push_back(Fixture::Peer(i));
    pool->SetPeers(list);
  }
  // The last question of draft `i`.
  void Tell(size_t i, const std::string& tokenizer_id) {
    v1::DescribeReply reply;
    reply.mutable_welcome()->set_tokenizer_id(tokenizer_id);
    questions[i].back()(std::move(reply));
  }
  // Of draft `i`.
  uint64_t Refusals(size_t i) const {
    const auto counts = refusals->counts();
    const auto count = counts.find({v1::Peer::ROLE_DRAFT, Fixture::Peer(i).address});
    return count == counts.end() ? 0 : count->second;
  }
  bool Opens(DraftSession& session, size_t i) {
    session.Close();
    const uint32_t before = pool->Peers()[i].sequences();
    session.Open(DraftOpen());
    return pool->Peers()[i].sequences() > before;
  }

  testing::FakeClock clock;
  testing::FakeTimers timers{clock};
  const std::shared_ptr<RefusalCounts> refusals = std::make_shared<RefusalCounts>();
  std::vector<FakeService> services;
  std::vector<std::vector<Answer>> questions;
  std::vector<std::weak_ptr<DraftGreeting>> greetings;
  std::shared_ptr<Deaf> events = std::make_shared<Deaf>();
  std::shared_ptr<DraftPool> pool;
};

TEST(DraftGreeting, AMisfitIsNamedCountedAndNotUsed) {
  testing::LogRecorder log;
  GreetedDrafts f(1);
  ASSERT_EQ(f.questions[0].size(), 1u) << "it asks at once";
  f.Tell(0, "sha256:9");
  ASSERT_EQ(log.Of("peer_refused").size(), 1u);
  EXPECT_EQ(log.Of("peer_refused")[0].fields.at("peer"), "a:1");
  EXPECT_EQ(log.Of("peer_refused")[0].fields.at("kind"), "draft");
  EXPECT_EQ(log.Of("peer_refused")[0].fields.at("reason"), kOther);
  v1::Peer peer = f.pool->Peers()[0];
  EXPECT_FALSE(peer.ready());
  EXPECT_EQ(f.Refusals(0), 1u);
  EXPECT_THAT(peer.problem(), HasSubstr(kOther));

  auto session = f.pool->NewSession(f.events);
  EXPECT_FALSE(f.Opens(*session, 0));
  EXPECT_EQ(f.events->lost, 1) << "an Open is always answered";
  EXPECT_THAT(f.events->last_reason, HasSubstr(kOther));
  EXPECT_EQ(session->GiveUp(DraftLoss::kRefused, absl::ZeroDuration()), NextDraft::kNever);

  // It is looked at again, and said once.
  f.timers.Advance(absl::Seconds(29));
  EXPECT_EQ(f.questions[0].size(), 1u);
  f.timers.Advance(absl::Seconds(1));
  ASSERT_EQ(f.questions[0].size(), 2u);
  f.Tell(0, "sha256:9");
  EXPECT_EQ(f.Refusals(0), 2u);
  EXPECT_EQ(log.Of("peer_refused").size(), 1u);

  // It was replaced by one that fits.
  f.timers.Advance(absl::Seconds(30));
  ASSERT_EQ(f.questions[0].size(), 3u);
  f.Tell(0, "sha256:1");
  EXPECT_TRUE(f.pool->Peers()[0].ready());
  auto other = f.pool->NewSession(f.events);
  EXPECT_TRUE(f.Opens(*other, 0));
  EXPECT_EQ(f.Refusals(0), 2u);
}

TEST(DraftGreeting, TheOtherDraftsAreUsed) {
  GreetedDrafts f(2);
  f.Tell(0, "sha256:9");
  f.Tell(1, "sha256:1");
  std::vector<std::unique_ptr<DraftSession>> sessions;
  for (int i = 0; i < 8; ++i) {
    sessions.push_back(f.pool->NewSession(f.events));
    EXPECT_TRUE(f.Opens(*sessions.back(), 1));
  }
  EXPECT_EQ(f.services[0].streams.size(), 0u);
  EXPECT_EQ(sessions[0]->GiveUp(DraftLoss::kRefused, absl::ZeroDuration()), NextDraft::kNever)
      << "the one that is left does not fit";
}

TEST(DraftGreeting, OneThatFitsIsKnownBeforeARequestUsesIt) {
  testing::LogRecorder log;
  GreetedDrafts f(1);
  v1::Peer peer = f.pool->Peers()[0];
  EXPECT_FALSE(peer.ready());
  EXPECT_EQ(peer.problem(), "it has not answered yet");
  v1::DescribeReply reply;
  reply.mutable_welcome()->set_tokenizer_id("sha256:1");
  reply.mutable_welcome()->set_model_id("small");
  reply.mutable_welcome()->add_drafters("model");
  reply.mutable_load()->set_free_slots(7);
  f.questions[0].back()(reply);
  peer = f.pool->Peers()[0];
  EXPECT_TRUE(peer.ready());
  EXPECT_EQ(peer.problem(), "");
  EXPECT_EQ(peer.welcome().drafters(0), "model");
  EXPECT_EQ(peer.load().free_slots(), 7u);
  EXPECT_EQ(f.pool->model_id(), "small") << "as the first request's Started tells";
  EXPECT_THAT(f.pool->drafters(), ElementsAre("model"));
  EXPECT_EQ(log.Of("peer_up").size(), 1u);
}

// An idle draft that is gone is not ready, and is ready again when it is back.
TEST(DraftGreeting, OneThatFitsIsAskedWhetherItIsStillThere) {
  testing::LogRecorder log;
  GreetedDrafts f(1);
  f.Tell(0, "sha256:1");
  f.timers.Advance(absl::Seconds(5));
  ASSERT_EQ(f.questions[0].size(), 2u);
  f.questions[0].back()(absl::UnavailableError("nobody there"));
  EXPECT_FALSE(f.pool->Peers()[0].ready());
  EXPECT_THAT(f.pool->Peers()[0].problem(),
              HasSubstr("does not answer: UNAVAILABLE: nobody there"));
  EXPECT_EQ(log.Of("peer_lost").size(), 1u);
  f.timers.Advance(absl::Seconds(5));
  ASSERT_EQ(f.questions[0].size(), 3u);
  f.Tell(0, "sha256:1");
  EXPECT_TRUE(f.pool->Peers()[0].ready());
  EXPECT_EQ(log.Of("peer_up").size(), 2u);
  // While a request has a stream there, the stream tells.
  auto session = f.pool->NewSession(f.events);
  ASSERT_TRUE(f.Opens(*session, 0));
  f.timers.Advance(absl::Seconds(5));
  f.questions[0].back()(absl::DeadlineExceededError("busy"));
  EXPECT_TRUE(f.pool->Peers()[0].ready());
}

TEST(DraftGreeting, OneThatDoesNotAnswerIsAskedAgainAndUsed) {
  GreetedDrafts f(1);
  for (size_t asked = 1; asked <= 4; ++asked) {
    ASSERT_EQ(f.questions[0].size(), asked);
    f.questions[0].back()(absl::UnavailableError("nobody there"));
    f.timers.Advance(absl::Seconds(5));
  }
  EXPECT_EQ(f.Refusals(0), 0u);
  auto session = f.pool->NewSession(f.events);
  EXPECT_TRUE(f.Opens(*session, 0)) << "the request finds out by itself";
  f.Tell(0, "sha256:9");
  EXPECT_EQ(f.Refusals(0), 1u);
}

TEST(DraftGreeting, EndsWithItsDraftOrWhenItIsStopped) {
  GreetedDrafts f(2);
  f.questions[0].back()(absl::UnavailableError("nobody there"));
  f.Tell(1, "sha256:9");
  EXPECT_EQ(f.timers.waiting(), 2u);
  f.greetings[1].lock()->Stop();
  EXPECT_EQ(f.timers.waiting(), 1u);
  f.pool->SetPeers({});
  f.timers.Advance(absl::Minutes(2));
  EXPECT_EQ(f.questions[0].size(), 1u);
  EXPECT_EQ(f.timers.waiting(), 0u);
  // An answer that comes late is nobody's.
  f.Tell(0, "sha256:9");
  f.Tell(1, "sha256:9");
  EXPECT_EQ(f.timers.waiting(), 0u);
  f.questions[0].clear();
  f.questions[1].clear();
  EXPECT_TRUE(f.greetings[0].expired() && f.greetings[1].expired());
}

}  // namespace
}  // namespace tandem::orchestrator
