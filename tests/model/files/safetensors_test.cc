#include "model/files/safetensors.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/files.h"

namespace tandem::model::testing {
namespace {

using ::testing::HasSubstr;

absl::Status OpenBytes(const TemporaryDirectory& directory, const std::string& bytes) {
  WriteBytes(directory.file("x.safetensors"), bytes);
  return SafetensorsFile::Open(directory.file("x.safetensors")).status();
}

TEST(Safetensors, ReadsWhatIsThere) {
  TemporaryDirectory directory;
  const float values[] = {1.5f, -2.0f, 3.0f};
  std::string data(reinterpret_cast<const char*>(values), sizeof(values));
  WriteBytes(directory.file("x.safetensors"),
             Safetensors(R"({"__metadata__":{"a":"b"},)"
                         R"("w":{"dtype":"F32","shape":[3,1],"data_offsets":[0,12]},)"
                         R"("empty":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                         data));
  auto file = SafetensorsFile::Open(directory.file("x.safetensors"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->tensors().size(), 2u);
  const TensorView& view = (*file)->tensors().at("w");
  EXPECT_EQ(view.dtype, "F32");
  EXPECT_EQ(ShapeText(view.shape), "[3, 1]");
  EXPECT_EQ(std::string(static_cast<const char*>(view.data), view.bytes), data);
}

// A file system in memory keeps its pages: nothing is dropped there.
TEST(Safetensors, DroppedPagesAreReadAgain) {
  TemporaryDirectory directory;
  constexpr size_t kBytes = 4 << 20;
  const std::string data(kBytes, 'x');
  const std::string path = directory.file("x.safetensors");
  WriteBytes(path, Safetensors(absl::StrCat(R"({"w":{"dtype":"U8","shape":[)", kBytes,
                                            R"(],"data_offsets":[0,)", kBytes, "]}}"),
                               data));
  const int descriptor = open(path.c_str(), O_RDONLY);
  ASSERT_EQ(fsync(descriptor), 0);  // what is not written yet cannot be dropped
  struct statfs system = {};
  ASSERT_EQ(fstatfs(descriptor, &system), 0);
  close(descriptor);
  auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorView& view = (*file)->tensors().at("w");
  const auto* bytes = static_cast<const char*>(view.data);
  const auto page = static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  const auto resident = [&] {
    auto begin = reinterpret_cast<uintptr_t>(bytes) / page * page;
    std::vector<unsigned char> pages(kBytes / page);
    EXPECT_EQ(mincore(reinterpret_cast<void*>(begin), kBytes, pages.data()), 0);
    return std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return p & 1; });
  };
  EXPECT_EQ(std::string(bytes, kBytes), data);
  EXPECT_EQ(resident(), kBytes / page);
  (*file)->DropPages();
  if (system.f_type != TMPFS_MAGIC) {
    EXPECT_LT(resident(), kBytes / page / 2);
  }
  EXPECT_EQ(std::string(bytes, kBytes), data);
}

TEST(Safetensors, NamesWhatIsWrong) {
  TemporaryDirectory directory;
  struct Case {
    std::string bytes;
    std::string error;
  };
  const std::string good = R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})";
  const std::string twelve(12, 'x');
  const Case cases[] = {
      {"", "is empty"},
      {"abc", "not a safetensors file"},
      {std::string(8, '\0') + "{}", "not a safetensors file"},
      {std::string(8, '\xff') + "{}", "not a safetensors file"},
      {Safetensors(good, twelve).substr(0, 30), "truncated: its header ends at byte 63"},
      {Safetensors(good, twelve).substr(0, 70),
       "its tensors end at byte 12 after the header, the file at 7"},
      {Safetensors(R"({"w":{"dtype":"F32","shape":[3],)"
                   R"("data_offsets":[18446744073709551600,18446744073709551612]}})",
                   twelve),
       "its tensors end at byte 18446744073709551612 after the header, the file at 12"},
      {Safetensors("{nonsense", ""), "not a JSON object"},
      {Safetensors("[1, 2]", ""), "not a JSON object"},
      {Safetensors(R"({"w":7})", ""), "tensor w: its header entry"},
      {Safetensors(R"({"w":{"dtype":"F32","shape":[-3],"data_offsets":[0,12]}})", twelve),
       "tensor w: its header entry"},
      {Safetensors(R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[12,0]}})", twelve),
       "F32 [3] needs 12 bytes, its offsets are [12, 0]"},
      {Safetensors(R"({"w":{"dtype":"X9","shape":[3],"data_offsets":[0,12]}})", twelve),
       "unknown dtype X9"},
      {Safetensors(R"({"w":{"dtype":"BF16","shape":[3],"data_offsets":[0,12]}})", twelve),
       "BF16 [3] needs 6 bytes"},
      {Safetensors(R"({"w":{"dtype":"F32","shape":[1099511627776,1099511627776,1099511627776],)"
                   R"("data_offsets":[0,12]}})",
                   twelve),
       "its offsets are [0, 12]"},
      {Safetensors(R"({"v":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
                   R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
                   twelve),
       "tensors w and v overlap"},
  };
  for (const Case& c : cases) {
    absl::Status status = OpenBytes(directory, c.bytes);
    EXPECT_FALSE(status.ok()) << c.error;
    EXPECT_THAT(std::string(status.message()), HasSubstr(c.error));
    EXPECT_THAT(std::string(status.message()), HasSubstr("x.safetensors"));
  }
}

// A file cut at any byte is refused, or (never here) complete; nothing outside it is read.
TEST(Safetensors, EveryTruncationIsRefused) {
  TemporaryDirectory directory;
  directory.CopyModel("tied");
  const std::string bytes = ReadBytes(directory.file("model.safetensors"));
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 20) {
    EXPECT_FALSE(OpenBytes(directory, bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_TRUE(OpenBytes(directory, bytes).ok());
}

}  // namespace
}  // namespace tandem::model::testing
