#include "common/concurrency/instant.h"

#include <sstream>
#include <type_traits>

#include "gtest/gtest.h"

namespace tandem::concurrency {
namespace {

constexpr absl::Duration kSecond = absl::Seconds(1);
const Instant kNow = Instant(absl::Hours(7));

TEST(InstantTest, DifferencesAreDurations) {
  EXPECT_EQ((kNow + kSecond) - kNow, kSecond);
  EXPECT_EQ(kNow - (kNow + kSecond), -kSecond);
  EXPECT_EQ(kSecond + kNow, kNow + kSecond);
  EXPECT_EQ(kNow - kSecond + kSecond, kNow);
  Instant moved = kNow;
  moved += 3 * kSecond;
  moved -= kSecond;
  EXPECT_EQ(moved - kNow, 2 * kSecond);
  EXPECT_EQ(kNow.since_epoch(), absl::Hours(7));
  EXPECT_EQ(kNow - Instant(), absl::Hours(7));
}

TEST(InstantTest, HasAnOrder) {
  EXPECT_LT(kNow, kNow + kSecond);
  EXPECT_GT(kNow, kNow - kSecond);
  EXPECT_LE(kNow, kNow);
  EXPECT_GE(kNow, kNow);
  EXPECT_NE(kNow, kNow + kSecond);
  EXPECT_LT(Instant::InfinitePast(), Instant());
  EXPECT_LT(Instant(), kNow);
  EXPECT_LT(kNow + absl::Hours(1'000'000), Instant::InfiniteFuture());
}

TEST(InstantTest, NothingMovesAnInfiniteOne) {
  for (Instant infinite : {Instant::InfinitePast(), Instant::InfiniteFuture()}) {
    EXPECT_EQ(infinite + kSecond, infinite);
    EXPECT_EQ(infinite - kSecond, infinite);
  }
  EXPECT_EQ(Instant::InfiniteFuture() - kNow, absl::InfiniteDuration());
  EXPECT_EQ(kNow - Instant::InfiniteFuture(), -absl::InfiniteDuration());
  EXPECT_EQ(kNow - Instant::InfinitePast(), absl::InfiniteDuration());
  EXPECT_EQ(kNow + absl::InfiniteDuration(), Instant::InfiniteFuture());
  EXPECT_EQ(kNow - absl::InfiniteDuration(), Instant::InfinitePast());
}

TEST(InstantTest, IsNeitherADurationNorTheTimeOfDay) {
  EXPECT_FALSE((std::is_convertible_v<absl::Duration, Instant>));
  EXPECT_FALSE((std::is_convertible_v<Instant, absl::Duration>));
  EXPECT_FALSE((std::is_constructible_v<Instant, absl::Time>));
  EXPECT_FALSE((std::is_constructible_v<absl::Time, Instant>));
  EXPECT_FALSE((std::is_constructible_v<absl::Duration, Instant>));
}

TEST(InstantTest, IsWritten) {
  std::ostringstream out;
  out << kNow + kSecond;
  EXPECT_EQ(out.str(), "epoch + 7h1s");
}

}  // namespace
}  // namespace tandem::concurrency
