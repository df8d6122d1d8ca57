// What becomes of a library that is not there, or is not this program's.
#include "torch/library/library.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/paths.h"

namespace tandem::torch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Fake(const char* name) {
  return tandem::testing::BuildPath(std::string("tests/torch/lib") + name + ".so");
}

TEST(LibraryTest, OneThatCannotBeLoadedSaysWhyAndHowToGetIt) {
  const auto library = LoadLibrary("/nowhere/libtandem_torch.so");
  EXPECT_TRUE(absl::IsFailedPrecondition(library.status())) << library.status();
  EXPECT_THAT(std::string(library.status().message()),
              AllOf(HasSubstr("/nowhere/libtandem_torch.so"), HasSubstr("scripts/setup")));
}

TEST(LibraryTest, AnotherInterfaceVersionIsRefusedWithBoth) {
  const auto library = LoadLibrary(Fake("tandem_fake_torch_version"));
  EXPECT_TRUE(absl::IsFailedPrecondition(library.status())) << library.status();
  EXPECT_THAT(std::string(library.status().message()),
              AllOf(HasSubstr("interface version 99"),
                    HasSubstr(absl::StrCat("this program ", kInterfaceVersion)),
                    HasSubstr("from the same sources")));
}

TEST(LibraryTest, AnotherBuildIsRefusedWithBoth) {
  const auto library = LoadLibrary(Fake("tandem_fake_torch_build"));
  EXPECT_TRUE(absl::IsFailedPrecondition(library.status())) << library.status();
  EXPECT_THAT(std::string(library.status().message()),
              AllOf(HasSubstr("tandem 9.9.9, compiler X"), HasSubstr(BuildText())));
}

TEST(LibraryTest, ALibraryWithoutTheEntryPointIsNoneOfOurs) {
  const auto library = LoadLibrary(Fake("tandem_fake_torch_entry"));
  EXPECT_TRUE(absl::IsFailedPrecondition(library.status())) << library.status();
  EXPECT_THAT(std::string(library.status().message()), HasSubstr("tandem_torch_library"));
}

}  // namespace
}  // namespace tandem::torch
