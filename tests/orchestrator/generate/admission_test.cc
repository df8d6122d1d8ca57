#include "orchestrator/generate/admission.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/concurrency/instant.h"
#include "common/messages/status_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/generate/admission_fixture.h"

namespace tandem::orchestrator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kNoDeadline = absl::InfiniteDuration();

TEST_F(AdmissionTest, AFullLineRefusesAtOnceAndSaysSo) {
  Make(2, 3);
  for (int i = 0; i < 5; ++i) Ask();
  const uint64_t refused = Ask(10);
  EXPECT_EQ(CodeOf(refused), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(refused),
              AllOf(HasSubstr("2 requests are active"), HasSubstr("3 wait: the line is full")));
  EXPECT_EQ(admission->waiting(), 3u);
  admission->Leave(1);
  const uint64_t waits = Ask();
  EXPECT_FALSE(told.contains(waits)) << "there was room in the line again";
}

TEST_F(AdmissionTest, ALineOfZeroMeansThatNobodyWaits) {
  Make(1, 0);
  Ask();
  const uint64_t refused = Ask();
  EXPECT_EQ(CodeOf(refused), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(refused), AllOf(HasSubstr("1 requests are active, which is the most"),
                                        HasSubstr("none may wait")));
  admission->Leave(1);
  Ask();
  EXPECT_THAT(admitted, ElementsAre(1, 3));
}

TEST_F(AdmissionTest, PatienceEndsTheWaitAndSaysHowLongItWasAndWhoWasAhead) {
  Make(1, 10, absl::Seconds(60));
  Ask();
  timers.Advance(absl::Seconds(1));
  Ask();
  Ask(5);
  const uint64_t last = Ask(0);
  timers.Advance(absl::Seconds(59));
  EXPECT_FALSE(told.contains(last));
  admission->Leave(1);  // 3 takes the place
  timers.Advance(absl::Seconds(1));
  EXPECT_EQ(CodeOf(last), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(MessageOf(2), HasSubstr("waited 1m for one of 1 places; requests ahead of it: 0"));
  EXPECT_THAT(MessageOf(last), HasSubstr("waited 1m for one of 1 places; requests ahead of it: 0"))
      << "2, which was ahead, gave up just before";
  EXPECT_EQ(admission->waiting(), 0u);
  EXPECT_EQ(told[last].waited, absl::Seconds(60));
}

TEST_F(AdmissionTest, TheWaitEndsShortlyBeforeTheRequestsOwnDeadline) {
  Make(1, 10, absl::Seconds(60));
  Ask();
  const uint64_t long_one = Ask(0, absl::Minutes(10));
  const uint64_t ahead = Ask(1, absl::Minutes(20));
  const uint64_t short_one = Ask(0, absl::Seconds(1));
  const concurrency::Instant began = clock.Now();
  timers.Advance(absl::Minutes(30));
  EXPECT_EQ(told[short_one].at - began, absl::Milliseconds(900))
      << "a tenth is left for the answer";
  EXPECT_THAT(MessageOf(short_one),
              HasSubstr("waited 900ms for one of 1 places; requests ahead of it: 2"));
  EXPECT_EQ(told[long_one].at - began, absl::Minutes(10) - Admission::kAnswerTime)
      << "its deadline counts, not the patience of those without one";
  EXPECT_EQ(told[ahead].at - began, absl::Minutes(20) - Admission::kAnswerTime);
  EXPECT_EQ(CodeOf(ahead), absl::StatusCode::kResourceExhausted);
}

TEST_F(AdmissionTest, ADeadlineThatHasPassedWaitsForNothing) {
  Make(1, 10);
  Ask();
  const uint64_t late = Ask(0, absl::Seconds(-5));
  timers.Advance(absl::ZeroDuration());
  EXPECT_EQ(CodeOf(late), absl::StatusCode::kResourceExhausted);
}

TEST_F(AdmissionTest, WhoIsRefusedHearsWhenTheLineWillHaveMoved) {
  Make(1, 4, absl::Seconds(100));
  const auto refused = [this] {
    return absl::ToDoubleSeconds(*messages::RetryDelay(told.at(Ask()).status));
  };
  for (int i = 0; i < 5; ++i) Ask();
  timers.Advance(absl::Seconds(3));
  EXPECT_EQ(refused(), 1) << "it has not moved yet";
  for (const uint64_t leaves : {1, 2}) {
    admission->Leave(leaves);
    Ask();  // the line is full again
    EXPECT_EQ(refused(), 15) << "five places, one in 3 s";
    timers.Advance(absl::Seconds(3));
  }
  timers.Advance(absl::Seconds(1));
  EXPECT_EQ(refused(), 20) << "none for 4 s";
  timers.Advance(absl::Seconds(60));
  EXPECT_EQ(refused(), 60) << "no more is said";
  timers.Advance(absl::Seconds(30));  // the time of 4 and 5 is over
  EXPECT_EQ(messages::RetryDelay(told.at(4).status), absl::Seconds(60));
}

// A line that had nobody says nothing of its pace.
TEST_F(AdmissionTest, TimeWithoutALineDoesNotCount) {
  Make(1, 1);
  Ask();
  Ask();
  timers.Advance(absl::Seconds(2));
  admission->Leave(1);  // 2 s for one place
  timers.Advance(absl::Seconds(50));
  Ask();
  const absl::Status full = told.at(Ask()).status;
  EXPECT_EQ(messages::RetryDelay(full), absl::Seconds(4)) << "two places";
}

TEST_F(AdmissionTest, DrainEndsThoseThatWaitAtOnceAndRefusesNewOnes) {
  Make(1, 10);
  for (int i = 0; i < 3; ++i) Ask();
  admission->Drain();
  const uint64_t late = Ask();
  for (uint64_t id : {uint64_t{2}, uint64_t{3}, late}) {
    EXPECT_EQ(CodeOf(id), absl::StatusCode::kUnavailable) << id;
    EXPECT_THAT(MessageOf(id), HasSubstr("ask another one"));
  }
  EXPECT_EQ(admission->waiting(), 0u);
  EXPECT_EQ(admission->active(), 1u) << "the one that runs may finish";
  EXPECT_EQ(timers.waiting(), 0u);
  admission->Leave(1);
  EXPECT_THAT(admitted, ElementsAre(1));
}

// Each request ends as it begins, and so lets the next one in: told one after another, not nested.
TEST_F(AdmissionTest, AThousandThatEndAtOnceDoNotNest) {
  Make(1, 2000);
  Ask();
  int depth = 0;
  int deepest = 0;
  int ended = 0;
  for (uint64_t id = 100; id < 1100; ++id) {
    admission->Ask(id, 0, "", kNever, [&, id](absl::Status, absl::Duration) {
      deepest = std::max(deepest, ++depth);
      admission->Leave(id);
      ++ended;
      --depth;
    });
  }
  admission->Leave(1);
  EXPECT_EQ(ended, 1000);
  EXPECT_EQ(deepest, 1);
  EXPECT_EQ(admission->active(), 0u);
}

TEST_F(AdmissionTest, OfOnePriorityClientsHaveTurns) {
  Make(1, 100);
  Ask(0, kNoDeadline, "a:1");
  for (int i = 0; i < 40; ++i) Ask(0, kNoDeadline, "a:1");
  for (int i = 0; i < 40; ++i) Ask(0, kNoDeadline, absl::StrCat("b:", i));
  const uint64_t late = Ask(0, kNoDeadline, "c:1");
  for (uint64_t id = 1; admitted.back() != late; id = admitted.back()) admission->Leave(id);
  EXPECT_EQ(admitted.size(), 4u) << "one of each other address went first";
}

// As many places as it wants, but only until others come.
TEST_F(AdmissionTest, InAFullLineTheClientWithTheMostGivesWay) {
  Make(1, 3);
  Ask(0, kNoDeadline, "a:1");
  for (int i = 0; i < 3; ++i) Ask(0, kNoDeadline, "a:1");
  const uint64_t other = Ask(0, kNoDeadline, "b:1");
  EXPECT_EQ(CodeOf(4), absl::StatusCode::kResourceExhausted) << "the last one of a:1";
  EXPECT_THAT(MessageOf(4), HasSubstr("the line is full"));
  EXPECT_EQ(told.count(other), 0u) << "it waits";
  const uint64_t same = Ask(0, kNoDeadline, "a:1");
  EXPECT_EQ(CodeOf(same), absl::StatusCode::kResourceExhausted) << "it has the most itself";
  const uint64_t second = Ask(0, kNoDeadline, "b:1");
  EXPECT_EQ(CodeOf(second), absl::StatusCode::kResourceExhausted) << "then it would have the most";
  EXPECT_EQ(admission->waiting(), 3u);
  admission->Leave(1);
  admission->Leave(2);
  EXPECT_THAT(admitted, ElementsAre(1, 2, other));
}

TEST_F(AdmissionTest, OneThatPausesGivesItsPlaceAwayAndIsNeverRefused) {
  Make(2, 10);
  for (int i = 0; i < 4; ++i) Ask();
  EXPECT_THAT(admitted, ElementsAre(1, 2));
  admission->Pause(1);
  EXPECT_THAT(admitted, ElementsAre(1, 2, 3));
  admission->Pause(1);
  admission->Pause(99);
  EXPECT_THAT(admitted, ElementsAre(1, 2, 3)) << "once each, and nothing for who has no place";
  admission->Resume(1);
  EXPECT_EQ(admission->active(), 3u) << "one too many";
  admission->Leave(2);
  EXPECT_THAT(admitted, ElementsAre(1, 2, 3)) << "until one has left";
  admission->Leave(1);
  EXPECT_THAT(admitted, ElementsAre(1, 2, 3, 4));
  admission->Pause(3);
  admission->Leave(3);
  EXPECT_EQ(admission->active(), 1u);
  EXPECT_EQ(CodeOf(Ask()), absl::StatusCode::kOk);
  Ask();
  EXPECT_EQ(admission->active(), 2u);
  EXPECT_EQ(admission->waiting(), 1u) << "the pause ended with the request";
}

TEST_F(AdmissionTest, TimersThatOutliveItDoNothing) {
  Make(1, 10);
  Ask();
  Ask();
  admission = nullptr;
  timers.Advance(absl::Hours(1));
  EXPECT_FALSE(told.contains(2));
}

}  // namespace
}  // namespace tandem::orchestrator
