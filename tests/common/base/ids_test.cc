#include "common/base/ids.h"

#include <sstream>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "gtest/gtest.h"

namespace tandem::base {
namespace {

TEST(IdsTest, AreComparedAndHashedAsNumbers) {
  EXPECT_EQ(StreamId{3}, StreamId{3});
  EXPECT_NE(StreamId{3}, StreamId{4});
  EXPECT_LT(Incarnation{3}, Incarnation{4});
  EXPECT_EQ(StreamId(), StreamId{0});
  absl::flat_hash_set<std::pair<StreamId, SequenceId>> keys = {{StreamId{1}, SequenceId{2}}};
  EXPECT_TRUE(keys.contains({StreamId{1}, SequenceId{2}}));
  EXPECT_FALSE(keys.contains({StreamId{2}, SequenceId{1}}));
}

TEST(IdsTest, AreNeitherNumbersNorEachOther) {
  EXPECT_FALSE((std::is_convertible_v<StreamId, SequenceId>));
  EXPECT_FALSE((std::is_convertible_v<StreamId, uint64_t>));
  EXPECT_FALSE((std::is_convertible_v<uint64_t, StreamId>));
}

TEST(IdsTest, Advance) {
  BlockId last{};
  EXPECT_EQ(Advance(last), BlockId{1});
  EXPECT_EQ(Advance(last), BlockId{2});
  EXPECT_EQ(Number(last), 2u);
}

TEST(IdsTest, AreWrittenAsNumbers) {
  std::ostringstream out;
  out << StreamId{7} << " " << DraftAttempt{8};
  EXPECT_EQ(out.str(), "7 8");
}

}  // namespace
}  // namespace tandem::base
