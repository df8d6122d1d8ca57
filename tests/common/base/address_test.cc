#include "common/base/address.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::base {
namespace {

using ::testing::HasSubstr;

TEST(AddressTest, ParsesNamesAndAddresses) {
  for (const char* text : {"localhost:1", "10.0.0.7:65535", "draft-0.draft_pool.svc:50051",
                           "[::1]:50051", "[fe80::1%eth0]:8"}) {
    absl::StatusOr<Address> address = ParseAddress("--draft", text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ToString(), text);
  }
  EXPECT_EQ(ParseAddress("--draft", "[::1]:9")->host, "::1");
  EXPECT_EQ(ParseAddress("--listen", "0.0.0.0:0", AddressUse::kListen)->port, 0);
}

TEST(AddressTest, ErrorNamesFlagValueProblemAndForm) {
  struct Case {
    const char* text;
    const char* problem;
  };
  for (const Case& c : std::initializer_list<Case>{{"", "is empty"},
                                                   {"localhost", "has no port"},
                                                   {"localhost:", "has no port"},
                                                   {":50051", "has no host"},
                                                   {"::1:50051", "needs brackets"},
                                                   {"[::1:50051", "lacks a ']'"},
                                                   {"[::1]", "has no port"},
                                                   {"[::1]50051", "has no port"},
                                                   {"[abc]:1", "no IPv6 address"},
                                                   {"a b:1", "other characters"},
                                                   {"http://a:1", "more than one ':'"},
                                                   {"a:65536", "not a number from 1 to 65535"},
                                                   {"a:99999999999999", "not a number"},
                                                   {"a:-1", "not a number"},
                                                   {"a:+1", "not a number"},
                                                   {"a: 1", "not a number"},
                                                   {"a:0", "port 0"}}) {
    absl::Status status = ParseAddress("--target", c.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.text;
    std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("--target: '" + std::string(c.text) + "'"));
    EXPECT_THAT(message, HasSubstr(c.problem));
    EXPECT_THAT(message, HasSubstr("HOST:PORT"));
  }
}

TEST(AddressTest, Lists) {
  auto list = ParseAddressList("--targets", "a:1, b:2,[::1]:3");
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->size(), 3u);
  EXPECT_EQ((*list)[1], (Address{"b", 2}));
  EXPECT_THAT(std::string(ParseAddressList("--targets", "a:1,").status().message()),
              HasSubstr("is empty"));
  EXPECT_THAT(std::string(ParseAddressList("--targets", "a:1,b:2,a:1").status().message()),
              HasSubstr("'a:1' is in the list twice"));
  EXPECT_FALSE(ParseAddressList("--targets", "").ok());
}

}  // namespace
}  // namespace tandem::base
