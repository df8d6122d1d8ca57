// What the machine itself knows of names.
#include "orchestrator/peers/system_look_up.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::orchestrator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SystemLookUp, KnowsThisMachineAndSaysWhatItDoesNot) {
  auto local = SystemLookUp("localhost");
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_THAT(*local, ::testing::Contains(::testing::AnyOf("127.0.0.1", "::1")));
  auto number = SystemLookUp("127.0.0.3");
  ASSERT_TRUE(number.ok()) << number.status();
  EXPECT_THAT(*number, ElementsAre("127.0.0.3")) << "once, not once a protocol";
  // Reserved never to exist. A machine without a network cannot even ask.
  auto nobody = SystemLookUp("nobody.invalid");
  ASSERT_FALSE(nobody.ok());
  EXPECT_TRUE(absl::IsNotFound(nobody.status()) || absl::IsUnavailable(nobody.status()))
      << nobody.status();
  EXPECT_THAT(std::string(nobody.status().message()), HasSubstr("cannot look up nobody.invalid: "));
}

}  // namespace
}  // namespace tandem::orchestrator
