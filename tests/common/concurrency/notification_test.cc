#include "common/concurrency/notification.h"

#include <memory>
#include <thread>

#include "gtest/gtest.h"

namespace tandem::concurrency {
namespace {

TEST(NotificationTest, WaitersSeeWhatWasWrittenBefore) {
  for (int i = 0; i < 100; ++i) {
    auto done = std::make_unique<Notification>();
    int value = 0;
    std::thread writer([&value, notification = done.get()] {
      value = 7;
      notification->Notify();
    });
    done->Wait();
    EXPECT_EQ(value, 7);
    EXPECT_TRUE(done->HasBeenNotified());
    done.reset();
    writer.join();
  }
}

TEST(NotificationTest, WaitForEnds) {
  Notification never;
  EXPECT_FALSE(never.WaitFor(absl::Milliseconds(1)));
  EXPECT_FALSE(never.WaitFor(absl::ZeroDuration()));
  EXPECT_FALSE(never.HasBeenNotified());
  never.Notify();
  EXPECT_TRUE(never.WaitFor(absl::ZeroDuration()));
  EXPECT_TRUE(never.WaitFor(absl::InfiniteDuration()));
}

TEST(NotificationDeathTest, Twice) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  Notification once;
  once.Notify();
  EXPECT_DEATH(once.Notify(), "twice");
}

}  // namespace
}  // namespace tandem::concurrency
