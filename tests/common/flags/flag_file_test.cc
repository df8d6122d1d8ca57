#include "common/flags/flag_file.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::flags {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ReadFlagFileTest, HasTheLinesThatAreFlags) {
  const std::string path = ::testing::TempDir() + "/flag_file_test";
  std::ofstream(path) << "# first\n--a=b # c\n\n\t--d\r\n  # last\n--e=";
  const auto lines = ReadFlagFile(path);
  ASSERT_TRUE(lines.ok()) << lines.status();
  ASSERT_EQ(lines->size(), 3u);
  EXPECT_EQ((*lines)[0].text, "--a=b # c");
  EXPECT_EQ((*lines)[0].place, path + ":2");
  EXPECT_EQ((*lines)[1].text, "--d");
  EXPECT_EQ((*lines)[1].place, path + ":4");
  EXPECT_EQ((*lines)[2].text, "--e=");
  EXPECT_EQ((*lines)[2].place, path + ":6");
}

TEST(ReadFlagFileTest, NamesWhatItCannotRead) {
  const absl::Status none = ReadFlagFile("/no/such").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.message()),
              AllOf(HasSubstr("--flagfile=/no/such"), HasSubstr("No such file")));
  const std::string folder = ::testing::TempDir();
  EXPECT_THAT(std::string(ReadFlagFile(folder).status().message()), HasSubstr("Is a directory"));
}

}  // namespace
}  // namespace tandem::flags
