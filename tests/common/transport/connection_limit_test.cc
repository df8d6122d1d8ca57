// Connections whose end nobody tells are counted all the same.
#include "common/transport/connection_limit.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <limits>
#include <vector>

#include "absl/time/time.h"
#include "common/base/listen.h"

namespace tandem::transport {
namespace {

constexpr int kAnyDescriptor = std::numeric_limits<int>::max();

base::Socket MakeSocket() { return base::Socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

TEST(ConnectionLimit, AClosedConnectionMakesRoomForAnother) {
  ConnectionLimit limit(2, kAnyDescriptor);
  absl::Time now = absl::UnixEpoch();
  std::vector<base::Socket> open;
  for (int i = 0; i < 2; ++i) {
    open.push_back(MakeSocket());
    EXPECT_TRUE(limit.Admit(open.back().fd(), now));
  }
  base::Socket third = MakeSocket();
  EXPECT_FALSE(limit.Admit(third.fd(), now));
  open.pop_back();
  now += absl::Seconds(1);
  EXPECT_TRUE(limit.Admit(third.fd(), now));
  now += absl::Seconds(1);
  EXPECT_FALSE(limit.Admit(MakeSocket().fd(), now));
}

TEST(ConnectionLimit, ThoseThatCloseBetweenTwoLooksMakeRoomAtOnce) {
  ConnectionLimit limit(3, kAnyDescriptor);
  const absl::Time now = absl::UnixEpoch();
  std::vector<base::Socket> open;
  for (int i = 0; i < 3; ++i) {
    open.push_back(MakeSocket());
    EXPECT_TRUE(limit.Admit(open.back().fd(), now));
  }
  const base::Socket one_more = MakeSocket();
  EXPECT_FALSE(limit.Admit(one_more.fd(), now));
  open.pop_back();
  EXPECT_TRUE(limit.Admit(one_more.fd(), now));
  EXPECT_FALSE(limit.Admit(MakeSocket().fd(), now));
  open.clear();
  for (int i = 0; i < 2; ++i) {
    open.push_back(MakeSocket());
    EXPECT_TRUE(limit.Admit(open.back().fd(), now)) << i;
  }
  EXPECT_FALSE(limit.Admit(MakeSocket().fd(), now));
}

TEST(ConnectionLimit, ADescriptorThatIsUsedAgainIsAnotherConnection) {
  ConnectionLimit limit(1, kAnyDescriptor);
  absl::Time now = absl::UnixEpoch();
  int before = 0;
  {
    const base::Socket first = MakeSocket();
    before = first.fd();
    EXPECT_TRUE(limit.Admit(before, now));
  }
  const base::Socket second = MakeSocket();
  ASSERT_EQ(second.fd(), before);  // the lowest one that is free
  now += absl::Seconds(1);
  EXPECT_TRUE(limit.Admit(second.fd(), now));
}

TEST(ConnectionLimit, DescriptorsAboveTheBoundStayFree) {
  const base::Socket low = MakeSocket();
  const base::Socket high = MakeSocket();
  ASSERT_LT(low.fd(), high.fd());
  ConnectionLimit limit(100, high.fd());
  EXPECT_TRUE(limit.Admit(low.fd(), absl::UnixEpoch()));
  EXPECT_FALSE(limit.Admit(high.fd(), absl::UnixEpoch()));
}

TEST(ConnectionLimit, SomeDescriptorsAreAlwaysKept) {
  EXPECT_EQ(ReservedDescriptors(1'000'000), 128);
  EXPECT_EQ(ReservedDescriptors(256), 64);
  EXPECT_GT(MaxDescriptors(), 0);
}

}  // namespace
}  // namespace tandem::transport
