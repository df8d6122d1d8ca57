// What a service says of its ports before it loads anything.
#include "common/transport/listen_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/taken_port.h"

namespace tandem::transport {
namespace {

using tandem::testing::TakenPort;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(const std::vector<ListenAddress>& addresses) {
  const absl::Status status = CheckListenAddresses(addresses);
  EXPECT_FALSE(status.ok());
  return std::string(status.message());
}

TEST(ListenCheck, APortThatIsTakenIsNamedWithItsFlag) {
  TakenPort taken;
  for (const char* host : {"127.0.0.1", "0.0.0.0", "localhost"}) {
    const std::string address = absl::StrCat(host, ":", taken.port());
    EXPECT_THAT(ErrorOf({{"--listen", "127.0.0.1:0"}, {"--admin-listen", address}}),
                AllOf(HasSubstr("--admin-listen: cannot listen on " + address),
                      HasSubstr("the port is taken: name a free one")));
  }
  const std::string address = absl::StrCat("127.0.0.1:", taken.port());
  taken.Release();
  EXPECT_TRUE(CheckListenAddresses({{"--listen", address}}).ok());
  EXPECT_TRUE(CheckListenAddresses({{"--listen", address}}).ok()) << "it lets the port go";
}

TEST(ListenCheck, OnePortForTwoIsTaken) {
  TakenPort free;
  free.Release();
  const std::string address = absl::StrCat("127.0.0.1:", free.port());
  EXPECT_THAT(ErrorOf({{"--listen", address}, {"--admin-listen", address}}),
              HasSubstr("--admin-listen: cannot listen on " + address + ": the port is taken"));
  EXPECT_TRUE(CheckListenAddresses({{"--listen", "127.0.0.1:0"}, {"--admin", "127.0.0.1:0"}}).ok());
}

TEST(ListenCheck, AnAddressOfAnotherMachineSaysWhatWouldBeRight) {
  // TEST-NET-3, which nobody has.
  EXPECT_THAT(ErrorOf({{"--listen", "203.0.113.7:0"}}),
              AllOf(HasSubstr("--listen: cannot listen on 203.0.113.7:0"),
                    HasSubstr("not one of this machine's"), HasSubstr("0.0.0.0 for all")));
  EXPECT_THAT(ErrorOf({{"--listen", "nobody.invalid:0"}}),
              AllOf(HasSubstr("--listen: cannot listen on nobody.invalid:0"),
                    HasSubstr("name a host or an address of this machine")));
  EXPECT_THAT(ErrorOf({{"--listen", "here"}}), HasSubstr("--listen: 'here' has no port"));
}

}  // namespace
}  // namespace tandem::transport
