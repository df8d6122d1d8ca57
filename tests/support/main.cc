// The main function of every program of tests. A test's temporary files lie in a folder of its
// process, which is removed at the end: tests that run at the same time, of this clone or of
// another, do not share files.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "tandem-tests-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    std::perror(folder.c_str());
    return 1;
  }
  // The one is read by ::testing::TempDir(), the other by the standard library and by child
  // processes.
  setenv("TEST_TMPDIR", (folder + "/").c_str(), /*overwrite=*/1);
  setenv("TMPDIR", folder.c_str(), /*overwrite=*/1);
  const pid_t owner = getpid();
  const int result = RUN_ALL_TESTS();
  // A child that a test has forked may return from here, too.
  if (getpid() == owner) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  return result;
}
