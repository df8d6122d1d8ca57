// A cache folder of a test's own.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "common/hub/cache.h"

namespace tandem::hub {

class HubCache : public ::testing::Test {
 protected:
  static constexpr char kCommit[] = "0123456789abcdef0123456789abcdef01234567";

  HubCache()
      : root_(std::filesystem::path(::testing::TempDir()) /
              ("hub_" +
               std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()))),
        folder_(root_.string(), HubName{"owner/name"}) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~HubCache() override { std::filesystem::remove_all(root_); }

  void Write(const std::filesystem::path& file, const std::string& text = "x") {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  // As huggingface_hub places a file.
  void Link(const std::string& file, const std::string& text = "x") {
    Write(folder_.Blob("blob-" + file), text);
    std::filesystem::create_directories(folder_.Snapshot(kCommit));
    std::filesystem::create_symlink("../../blobs/blob-" + file, folder_.Snapshot(kCommit) / file);
  }
  void LinkModel() {
    Write(folder_.Ref("main"), kCommit);
    for (const char* file : {"config.json", "generation_config.json", "tokenizer.json",
                             "tokenizer_config.json", "model.safetensors"}) {
      Link(file);
    }
  }

  const std::filesystem::path root_;
  const RepositoryFolder folder_;
};

}  // namespace tandem::hub
