#include "common/serving/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/common/serving/echo.h"

namespace tandem::serving {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ServingSession, WelcomeComesBeforeTheFirstAnswer) {
  Echo echo;
  auto client = echo.Connect();
  client.Ask(4);
  echo.RunAll();
  const std::vector<internal::v1::DraftReply> replies = client.sink->Take();
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(replies[0].welcome().instance_id(), "echo");
  EXPECT_EQ(replies[1].block().round(), 4u);
  EXPECT_EQ(client.ended(), std::nullopt);
}

TEST(ServingSession, HelloComesFirstAndOnce) {
  Echo echo;
  auto early = echo.ConnectWithoutHello();
  early.Ask(1);
  EXPECT_EQ(early.ended(), StatusCode::kFailedPrecondition);
  auto twice = echo.Connect();
  twice.Hello();
  EXPECT_EQ(twice.ended(), StatusCode::kFailedPrecondition);
  echo.RunAll();
  EXPECT_THAT(echo.executor.freed(), ElementsAre(Pair(twice.session->admitted[0].first, false)));
}

TEST(ServingSession, WhoDoesNotFitIsRefusedAndNeverKnown) {
  Echo echo;
  auto misfit = echo.ConnectWithoutHello();
  misfit.Hello(messages::kProtocolRevision + 1);
  EXPECT_EQ(misfit.ended(), StatusCode::kFailedPrecondition);
  auto unwanted = echo.ConnectWithoutHello();
  unwanted.session->admission = absl::UnavailableError("full");
  unwanted.Hello();
  EXPECT_EQ(unwanted.ended(), StatusCode::kUnavailable);
  unwanted.session->OnDone(absl::UnavailableError("full"));
  echo.RunAll();
  EXPECT_EQ(echo.executor.began(), 0);
  EXPECT_THAT(unwanted.session->admitted, IsEmpty());
}

TEST(ServingSession, AMessageThatIsRefusedEndsTheStreamAndNothingIsKept) {
  Echo echo;
  auto client = echo.Connect();
  internal::v1::DraftRequest request;
  request.mutable_submitted();
  client.session->OnMessage(request);
  EXPECT_EQ(client.ended(), StatusCode::kInvalidArgument);
  client.Ask(1);  // ignored, like what follows
  client.Hello();
  client.session->OnHalfClose();
  client.session->OnDone(absl::CancelledError());
  echo.RunAll();
  ASSERT_EQ(client.session->admitted.size(), 1u);
  EXPECT_EQ(client.session->admitted[0].second, StatusCode::kInvalidArgument);
  EXPECT_THAT(client.Rounds(), IsEmpty());
}

TEST(ServingSession, AHalfCloseIsAnEndInOrder) {
  Echo echo;
  auto silent = echo.ConnectWithoutHello();
  silent.session->OnHalfClose();
  EXPECT_EQ(silent.ended(), StatusCode::kOk);
  auto client = echo.Connect();
  client.Ask(1);
  client.Ask(2);
  client.session->OnHalfClose();
  client.Ask(3);  // ignored
  echo.executor.RunOnce();
  EXPECT_EQ(client.ended(), std::nullopt) << "an answer is owed";
  echo.RunAll();
  EXPECT_THAT(client.Rounds(), ElementsAre(1, 2));
  EXPECT_EQ(client.ended(), StatusCode::kOk);
}

TEST(ServingSession, ABrokenStreamMayReturn) {
  Echo echo;
  auto client = echo.Connect();
  client.session->OnDone(absl::CancelledError());
  echo.RunAll();
  ASSERT_EQ(client.session->admitted.size(), 1u);
  EXPECT_EQ(client.session->admitted[0].second, StatusCode::kCancelled);
  EXPECT_THAT(echo.executor.freed(), ElementsAre(Pair(client.session->admitted[0].first, true)));
}

TEST(ServingSession, WhoSendsWithoutWaitingIsEnded) {
  Echo echo;
  auto client = echo.Connect();
  client.Ask(1);
  client.Ask(2);
  EXPECT_EQ(client.ended(), std::nullopt);
  client.Ask(3);  // with StreamBegins, too many wait
  EXPECT_EQ(client.ended(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tandem::serving
