#include "common/speculation/prefix_delta.h"

#include "gtest/gtest.h"

namespace tandem::speculation {
namespace {

TEST(PrefixDelta, ArrivesAsItWasSent) {
  const PrefixDelta sent{7, {3, 1, 2}, 0x1234'5678'9abc'def0};
  const internal::v1::Prefix wire = ToWire(sent);
  EXPECT_EQ(wire.keep(), 7u);
  EXPECT_EQ(wire.tokens_size(), 3);
  EXPECT_EQ(wire.hash(), sent.hash);
  EXPECT_EQ(FromWire(wire), sent);
  EXPECT_EQ(FromWire(internal::v1::Prefix()), PrefixDelta());
  EXPECT_NE(FromWire(wire), PrefixDelta());
}

}  // namespace
}  // namespace tandem::speculation
