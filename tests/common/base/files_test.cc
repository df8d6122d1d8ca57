// read_file.h and output_file.h.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "common/base/output_file.h"
#include "common/base/read_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::base {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() { fs::create_directories(folder_); }
  ~FilesTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string Content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  // How many files and the like there are.
  ptrdiff_t Entries() const {
    return std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  }

  const std::string folder_ =
      fs::temp_directory_path() / ("tandem_files_" + std::to_string(getpid()));
};

TEST_F(FilesTest, AFileIsReadUpToItsBound) {
  std::ofstream(Path("a")) << "four";
  fs::create_symlink("a", Path("link"));
  for (const char* name : {"a", "link"}) {
    const auto text = ReadRegularFile(Path(name), 4);
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, "four");
  }
  EXPECT_EQ(ReadRegularFile(Path("a"), 3).status(),
            absl::InvalidArgumentError(Path("a") + ": larger than the maximum of 3 bytes"));
  EXPECT_EQ(ReadRegularFile(Path("b"), 3).status(),
            absl::NotFoundError(Path("b") + ": No such file or directory"));
  const std::string large(1 << 20, 'x');
  std::ofstream(Path("large")) << large;
  EXPECT_EQ(*ReadRegularFile(Path("large"), 1 << 20), large);
}

TEST_F(FilesTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", Path("zero"));
  for (const std::string& path : {Path("fifo"), Path("zero"), folder_, std::string("/dev/zero")}) {
    const absl::Status expected = absl::InvalidArgumentError(path + ": not a regular file");
    EXPECT_EQ(ReadRegularFile(path, 100).status(), expected);
  }
}

TEST_F(FilesTest, AFileThatSaysNoSizeIsReadUpToTheBoundAlone) {
  const auto text = ReadRegularFile("/proc/self/status", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*text, HasSubstr("Pid:"));
  EXPECT_EQ(ReadRegularFile("/proc/self/status", 10).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(FilesTest, APipeOfACommandIsReadAndBounded) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const absl::Cleanup close_it = [&] { close(ends[0]); };
  ASSERT_EQ(write(ends[1], "flags", 5), 5);
  close(ends[1]);
  EXPECT_EQ(*ReadFileOrPipe("/dev/fd/" + std::to_string(ends[0]), 5), "flags");
  EXPECT_EQ(ReadFileOrPipe("/dev/zero", 1000).status(),
            absl::InvalidArgumentError("/dev/zero: larger than the maximum of 1000 bytes"));
}

TEST_F(FilesTest, AFileIsReplacedOnlyWhereThatIsAllowed) {
  ASSERT_TRUE(WriteFile(Path("a"), "old", Existing::kKeep).ok());
  EXPECT_EQ(CheckOutput(Path("a"), Existing::kKeep),
            absl::AlreadyExistsError(
                Path("a") + " already exists: give another name, or --force to replace it"));
  EXPECT_EQ(WriteFile(Path("a"), "new", Existing::kKeep).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Content(Path("a")), "old");
  ASSERT_EQ(chmod(Path("a").c_str(), 0640), 0);
  EXPECT_TRUE(WriteFile(Path("a"), "new", Existing::kReplace).ok());
  EXPECT_EQ(Content(Path("a")), "new");
  EXPECT_EQ(fs::status(Path("a")).permissions(), fs::perms{0640});
  EXPECT_EQ(Entries(), 1);
}

TEST_F(FilesTest, AFileThatCameMeanwhileIsKept) {
  auto file = OutputFile::Create(Path("a"), Existing::kKeep);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(file->Write("mine").ok());
  std::ofstream(Path("a")) << "another's";
  EXPECT_EQ(file->Commit().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Content(Path("a")), "another's");
}

TEST_F(FilesTest, NothingButARegularFileIsEverReplaced) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  std::ofstream(Path("file")) << "precious";
  fs::create_symlink("file", Path("link"));
  fs::create_symlink("nothing", Path("dangling"));
  fs::create_directory(Path("folder"));
  const ptrdiff_t before = Entries();
  for (const std::string& path : {Path("fifo"), Path("link"), Path("dangling"), Path("folder"),
                                  std::string("/dev/full"), std::string("/dev/null")}) {
    for (const Existing existing : {Existing::kKeep, Existing::kReplace}) {
      const absl::Status status = WriteFile(path, "text", existing);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(status.message(), HasSubstr("cannot write " + path + ": it is "));
      EXPECT_EQ(CheckOutput(path, existing), status);
      EXPECT_EQ(Publish(Path("file"), path, existing), status);
    }
  }
  EXPECT_EQ(Content(Path("file")), "precious");
  EXPECT_TRUE(fs::is_fifo(Path("fifo")));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  EXPECT_EQ(Entries(), before);
}

TEST_F(FilesTest, WhatIsNotCommittedLeavesNothing) {
  {
    auto file = OutputFile::Create(Path("a"), Existing::kKeep);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Write("half").ok());
    EXPECT_FALSE(fs::exists(Path("a")));
  }
  EXPECT_EQ(Entries(), 0);
}

TEST_F(FilesTest, TheReasonOfAFailedWriteIsTold) {
  EXPECT_EQ(WriteFile(Path("no/a"), "", Existing::kKeep),
            absl::NotFoundError("cannot write " + Path("no/a") + ": No such file or directory"));
  std::ofstream(Path("file")) << "";
  EXPECT_EQ(CheckOutput(Path("file/a"), Existing::kKeep).message(),
            "cannot write " + Path("file/a") + ": Not a directory");
  EXPECT_FALSE(WriteFile("/proc/a", "", Existing::kKeep).ok());
  EXPECT_FALSE(CheckOutput(Path("file") + "/", Existing::kKeep).ok());
  EXPECT_FALSE(CheckOutput("", Existing::kKeep).ok());

  rlimit whole{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &whole), 0);
  signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, whole.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status status = WriteFile(Path("a"), std::string(10000, 'x'), Existing::kKeep);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &whole), 0);
  EXPECT_EQ(status, absl::ResourceExhaustedError("cannot write " + Path("a") + ": File too large"));
  EXPECT_FALSE(fs::exists(Path("a")));
}

}  // namespace
}  // namespace tandem::base
