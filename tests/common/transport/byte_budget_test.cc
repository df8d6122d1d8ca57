// No caller takes what others need.
#include "common/transport/byte_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tandem::transport {
namespace {

using ::testing::HasSubstr;

TEST(ByteBudget, OneCallerHasAQuarter) {
  ByteBudget budget(100);
  auto first = budget.Take("a", 20);
  ASSERT_TRUE(first.ok());
  const auto second = budget.Take("a", 6);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(second.status().message()),
              ::testing::AllOf(HasSubstr("20 bytes"), HasSubstr("at most 25")));
  EXPECT_TRUE(budget.Take("b", 25).ok());
  *first = nullptr;  // given back
  EXPECT_TRUE(budget.Take("a", 25).ok());
}

TEST(ByteBudget, AnAddressLeavesSomeToOthers) {
  ByteBudget budget(100);
  std::vector<ByteBudget::Hold> held;
  const auto take_all = [&](const std::string& address) {
    size_t taken = 0;
    for (int port = 1;; ++port) {
      auto one = budget.Take(absl::StrCat(address, ":", port), 1);
      if (!one.ok()) {
        EXPECT_THAT(std::string(one.status().message()), HasSubstr("of this address"));
        return taken;
      }
      held.push_back(*std::move(one));
      ++taken;
    }
  };
  EXPECT_EQ(take_all("ipv4:10.0.0.7"), 75);
  EXPECT_EQ(take_all("ipv6:%5B::7%5D"), 18);
  EXPECT_EQ(take_all("ipv4:10.0.0.8"), 5);
  EXPECT_EQ(take_all("ipv4:10.0.0.7"), 0);
  held.clear();
  EXPECT_EQ(take_all("ipv4:10.0.0.8"), 75);
}

TEST(ByteBudget, AllTogetherHaveTheWhole) {
  std::vector<ByteBudget::Hold> held;
  {
    ByteBudget budget(100);
    for (int i = 0; i < 3; ++i) held.push_back(*budget.Take(absl::StrCat("caller ", i), 25));
    held.push_back(*budget.Take("another", 10));
    const auto more = budget.Take("one more", 16);
    EXPECT_EQ(more.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(more.status().message()), HasSubstr("at most 100"));
    held.pop_back();
    held.push_back(*budget.Take("one more", 16));
  }
  held.clear();  // after the budget
}

}  // namespace
}  // namespace tandem::transport
