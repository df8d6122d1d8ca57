// What is said to be needed before a model is loaded, against what loading takes.
#include "model/memory_need.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "model/activations.h"
#include "tests/model/support.h"
#include "tests/support/paths.h"

namespace tandem::model::testing {
namespace {

constexpr int kRows = 256;
constexpr int64_t kTokens = 1024;  // of the cache: few, so that it does not hide the weights

std::vector<process::MemoryPart> NeedOf(const std::string& directory, Dtype dtype) {
  auto config = ReadConfig(directory);
  auto checkpoint = Checkpoint::Open(directory);
  EXPECT_TRUE(config.ok() && checkpoint.ok());
  auto tensors = FindTensors(config->spec, config->family->tensors, *checkpoint);
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  return MemoryNeed(config->spec, *tensors, dtype, kTokens, kRows);
}

int64_t MappedBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages;
  return pages * sysconf(_SC_PAGE_SIZE);
}

// Less would be a promise that is not kept, and much more would refuse a model that fits.
void ExpectAbout(int64_t need, int64_t taken, int64_t slack) {
  EXPECT_GE(taken, need);
  EXPECT_LE(taken, need + need / 10 + slack);
}

class MemoryNeedTest : public ::testing::TestWithParam<Dtype> {};

INSTANTIATE_TEST_SUITE_P(Dtypes, MemoryNeedTest,
                         ::testing::Values(Dtype::kAuto, Dtype::kFloat32, Dtype::kBfloat16),
                         [](const auto& info) { return std::string(DtypeName(info.param)); });

TEST_P(MemoryNeedTest, IsWhatTheLoaderTakes) {
  for (const char* model : {"demo/target", "demo/draft"}) {
    SCOPED_TRACE(model);
    const std::string directory = tandem::testing::SourcePath(model);
    const std::vector<process::MemoryPart> need = NeedOf(directory, GetParam());
    ASSERT_EQ(need.size(), 3u);
    LoadReport report;
    LoadOptions options;
    options.directory = directory;
    options.max_rows = kRows;
    options.pool_tokens = kTokens;
    options.dtype = GetParam();
    options.report = &report;
    const int64_t before = MappedBytes();
    const auto loaded = Load(options);
    const int64_t taken = MappedBytes() - before;
    ASSERT_TRUE(loaded.ok()) << loaded.status();

    EXPECT_EQ(need[0].name, "weights");
    ExpectAbout(need[0].bytes, report.weight_bytes, /*slack=*/0);
    EXPECT_EQ(need[1].name, "cache");
    EXPECT_EQ(need[1].bytes, report.cache_bytes);
    // Buffers are whole huge pages, and the heap grows a little.
    ExpectAbout(need[0].bytes + need[1].bytes + need[2].bytes, taken, int64_t{8} << 20);
  }
}

TEST(MemoryNeed, CountsTheActivationsOfAPass) {
  const std::string directory = tandem::testing::SourcePath("demo/target");
  const auto config = ReadConfig(directory);
  ASSERT_TRUE(config.ok());
  const Activations activations(config->spec, kRows, /*members=*/1, false);
  int64_t floats = 0;
  for (const RowBuffer* rows : {&activations.residual, &activations.normed, &activations.qkv,
                                &activations.attended, &activations.inner, &activations.logits}) {
    floats += int64_t{kRows} * rows->stride();
  }
  const process::MemoryPart need = NeedOf(directory, Dtype::kAuto)[2];
  EXPECT_EQ(need.name, "activations");
  ExpectAbout(need.bytes, floats * static_cast<int64_t>(sizeof(float)), /*slack=*/0);
}

}  // namespace
}  // namespace tandem::model::testing
