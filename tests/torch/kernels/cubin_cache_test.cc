#include "torch/kernels/cubin_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace tandem::kernels {
namespace {

namespace fs = std::filesystem;

class CubinCacheTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  void Age(const std::string& key, int hours) {
    fs::last_write_time(folder_ / key,
                        fs::file_time_type::clock::now() - std::chrono::hours(hours));
  }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) / absl::StrCat("tandem-cubin-cache-", getpid());
};

TEST_F(CubinCacheTest, KeepsACubinForTheNextStart) {
  EXPECT_EQ(CubinCache(folder_).Find("a"), std::nullopt);
  CubinCache(folder_).Keep("a", std::string("\0binary", 7));
  EXPECT_EQ(CubinCache(folder_).Find("a"), std::string("\0binary", 7));
}

TEST_F(CubinCacheTest, ADamagedFileIsNotThere) {
  const CubinCache cache(folder_);
  cache.Keep("a", "a cubin");
  fs::resize_file(folder_ / "a", fs::file_size(folder_ / "a") - 1);
  EXPECT_EQ(cache.Find("a"), std::nullopt);
  fs::resize_file(folder_ / "a", 3);
  EXPECT_EQ(cache.Find("a"), std::nullopt);
}

TEST_F(CubinCacheTest, WhatWasNotUsedForLongestGoes) {
  const CubinCache cache(folder_, 3 * (100 + 32));
  for (const char* key : {"a", "b", "c"}) cache.Keep(key, std::string(100, key[0]));
  Age("a", 3);
  Age("b", 2);
  Age("c", 1);
  EXPECT_NE(cache.Find("a"), std::nullopt) << "and is used now";
  cache.Keep("d", std::string(100, 'd'));
  EXPECT_NE(cache.Find("a"), std::nullopt);
  EXPECT_EQ(cache.Find("b"), std::nullopt);
  EXPECT_NE(cache.Find("c"), std::nullopt);
  EXPECT_NE(cache.Find("d"), std::nullopt);
}

TEST_F(CubinCacheTest, AFolderThatCannotBeWrittenIsAWarning) {
  std::ofstream(folder_.string()) << "a file";
  std::string logged;
  const base::ScopedLogSink sink(
      [&](const base::LogEntry& entry) { logged += std::string(entry.message); });
  CubinCache(folder_).Keep("a", "a cubin");
  EXPECT_TRUE(absl::StrContains(logged, "cannot be kept")) << logged;
  EXPECT_EQ(CubinCache(folder_).Find("a"), std::nullopt);
  CubinCache("").Keep("a", "a cubin");
  EXPECT_EQ(CubinCache("").Find("a"), std::nullopt);
}

TEST_F(CubinCacheTest, AKeyIsOfAllThatACubinDependsOn) {
  const KernelProgram& program = KernelPrograms()[0];
  const std::string key = CubinCache::Key(program, 90, "13.0");
  EXPECT_EQ(key, CubinCache::Key(program, 90, "13.0"));
  EXPECT_NE(key, CubinCache::Key(program, 89, "13.0"));
  EXPECT_NE(key, CubinCache::Key(program, 90, "13.1"));
  KernelProgram other = program;
  const std::string text = std::string(program.source.text) + " ";
  other.source.text = text.c_str();
  EXPECT_NE(key, CubinCache::Key(other, 90, "13.0"));
}

}  // namespace
}  // namespace tandem::kernels
