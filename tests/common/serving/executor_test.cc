#include "common/serving/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/common/serving/echo.h"

namespace tandem::serving {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ServingExecutor, TakesInAllThatIsQueuedBeforeItComputes) {
  Echo echo;
  auto one = echo.Connect();
  auto other = echo.Connect();
  one.Ask(1);
  EXPECT_TRUE(echo.executor.RunOnce());
  EXPECT_EQ(echo.executor.began(), 2);
  EXPECT_THAT(one.Rounds(), ElementsAre(1));
  EXPECT_FALSE(echo.executor.RunOnce()) << "nothing is left";
}

TEST(ServingExecutor, AStreamThatEndedIsOwedNothing) {
  Echo echo;
  auto client = echo.Connect();
  client.Ask(1);
  client.session->OnDone(absl::CancelledError());
  echo.executor.queue().PushRequest(Ask{client.session->admitted[0].first, 2}).IgnoreError();
  echo.RunAll();
  EXPECT_THAT(client.Rounds(), IsEmpty());
  EXPECT_EQ(client.ended(), std::nullopt) << "its client is gone: nobody is told";
  // Ends of streams that are not there do no harm.
  echo.executor.queue().Push(StreamFinishes{StreamId{99}});
  echo.executor.queue().Push(StreamEnds{StreamId{99}, true, absl::OkStatus()});
  echo.RunAll();
  EXPECT_EQ(echo.executor.freed().size(), 1u);
}

TEST(ServingExecutor, AStreamMayBeEndedWithAReason) {
  Echo echo;
  echo.executor.queue().Push(StreamBegins<internal::v1::DraftReply>{
      .stream = StreamId{5}, .sink = std::make_shared<RecordingSink>()});
  auto sink = std::make_shared<RecordingSink>();
  echo.executor.queue().Push(
      StreamBegins<internal::v1::DraftReply>{.stream = StreamId{6}, .sink = sink});
  echo.executor.queue().Push(StreamEnds{StreamId{6}, true, absl::AbortedError("taken over")});
  echo.RunAll();
  ASSERT_TRUE(sink->closed().has_value());
  EXPECT_EQ(sink->closed()->code(), StatusCode::kAborted);
  EXPECT_THAT(echo.executor.freed(), ElementsAre(std::pair<StreamId, bool>(StreamId{6}, true)));
}

TEST(ServingExecutor, DrainingWakesItAndTheEndEndsAll) {
  Echo echo;
  auto one = echo.Connect();
  auto other = echo.Connect();
  echo.RunAll();
  EXPECT_FALSE(echo.executor.draining());
  echo.executor.Drain();
  EXPECT_TRUE(echo.executor.draining());
  EXPECT_TRUE(echo.executor.RunOnce());
  one.Ask(1);
  echo.RunAll();
  EXPECT_THAT(one.Rounds(), ElementsAre(1));
  one.Ask(2);
  echo.executor.End();
  echo.RunAll();
  EXPECT_THAT(one.Rounds(), IsEmpty());
  EXPECT_EQ(one.ended(), StatusCode::kUnavailable);
  EXPECT_EQ(one.sink->closed()->message(), "it has shut down");
  EXPECT_EQ(other.ended(), StatusCode::kUnavailable);
}

TEST(ServingExecutor, WhatIsQueuedAndHeldUpIsDoneBeforeTheThreadEnds) {
  Echo echo;
  auto client = echo.Connect();
  client.Ask(1);
  echo.executor.HoldUp(true);
  std::thread thread([&echo] { echo.executor.Run(); });
  echo.executor.Stop();
  thread.join();
  EXPECT_THAT(client.Rounds(), ElementsAre(1));
  client.Ask(2);
  EXPECT_EQ(client.ended(), StatusCode::kCancelled) << "nobody would answer";
}

}  // namespace
}  // namespace tandem::serving
