#include "common/hub/local_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/common/hub/hub_cache.h"

namespace tandem::hub {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class LocalDirectoryTest : public HubCache {
 protected:
  LocalDirectoryTest() {
    options_.settings.cache = root_.string();
    options_.say = [this](absl::string_view line) { said_.emplace_back(line); };
  }

  // A `tandem` that does what a shell script does.
  void PullBy(const std::string& script) {
    const fs::path path = root_ / "tandem";
    Write(path, "#!/bin/sh\n" + script);
    fs::permissions(path, fs::perms::owner_all);
    options_.puller = path.string();
  }
  absl::StatusOr<std::string> Find(const std::string& value, Need need = Need::kModel) {
    return LocalDirectory(value, need, options_);
  }

  LocalDirectoryOptions options_;
  std::vector<std::string> said_;
};

TEST_F(LocalDirectoryTest, APathStandsForItself) {
  fs::create_directories(root_ / "a/b");
  for (const std::string& path :
       {(root_ / "a/b").string(), std::string("/no/such/model"), std::string("../no@such"),
        std::string("model"), std::string("./owner/name"), std::string("a/b/c"),
        std::string("folder/model.gguf")}) {
    EXPECT_EQ(Find(path).value_or("refused"), path);
  }
}

TEST_F(LocalDirectoryTest, ANameStandsForItsSnapshot) {
  LinkModel();
  EXPECT_EQ(Find("owner/name").value(), folder_.Snapshot(kCommit).string());
  EXPECT_EQ(Find(absl::StrCat("owner/name@", kCommit)).value(), folder_.Snapshot(kCommit).string());
  EXPECT_TRUE(said_.empty());
}

TEST_F(LocalDirectoryTest, ANameWithAFileStandsForThatFile) {
  Write(folder_.Ref("main"), kCommit);
  EXPECT_THAT(Find("owner/name:m.gguf", Need::kTokenizer).status().message(),
              HasSubstr("run `tandem pull owner/name:m.gguf`"));
  Link("m.gguf");
  EXPECT_EQ(Find("owner/name:m.gguf").value(), (folder_.Snapshot(kCommit) / "m.gguf").string());
  EXPECT_TRUE(absl::IsInvalidArgument(Find("owner/name:m.bin").status()));
}

TEST_F(LocalDirectoryTest, WithoutAPullerTheErrorSaysWhatToRun) {
  EXPECT_THAT(Find("owner/name@v1").status().message(),
              HasSubstr("run `tandem pull owner/name@v1` with the same HF_HOME"));
  EXPECT_THAT(Find("owner/name", Need::kTokenizer).status().message(),
              HasSubstr("run `tandem pull owner/name --tokenizer-only`"));
  EXPECT_TRUE(absl::IsInvalidArgument(Find("name@v1").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Find("https://host/owner/name").status()));
}

TEST_F(LocalDirectoryTest, OfflinePullsNothing) {
  PullBy("touch " + (root_ / "pulled").string());
  options_.settings.offline = true;
  EXPECT_THAT(Find("owner/name").status().message(), HasSubstr("HF_HUB_OFFLINE"));
  EXPECT_FALSE(fs::exists(root_ / "pulled"));
}

TEST_F(LocalDirectoryTest, WhatIsNotThereIsPulled) {
  LinkModel();
  const std::string weights = (folder_.Snapshot(kCommit) / "model.safetensors").string();
  fs::rename(weights, root_ / "weights");
  PullBy(absl::StrCat("echo \"$@\" >&2; echo to nobody; mv ", (root_ / "weights").string(), " ",
                      weights));
  EXPECT_EQ(Find("owner/name").value(), folder_.Snapshot(kCommit).string());
  EXPECT_THAT(said_, ElementsAre(HasSubstr("owner/name is not in the cache"), "pull owner/name"));
}

TEST_F(LocalDirectoryTest, AFailedPullSaysWhy) {
  PullBy("echo half way >&2; echo 'error: UNAVAILABLE: no network' >&2; exit 1");
  EXPECT_EQ(Find("owner/name").status(), absl::UnavailableError("UNAVAILABLE: no network"));
  EXPECT_THAT(said_, ElementsAre(HasSubstr("pulling"), "half way"));
  PullBy("exit 3");
  EXPECT_THAT(Find("owner/name").status().message(), HasSubstr("exit code 3"));
  PullBy("kill -9 $$");
  EXPECT_THAT(Find("owner/name").status().message(), HasSubstr("signal 9"));
  PullBy("exit 0");  // and pulled nothing
  EXPECT_TRUE(absl::IsNotFound(Find("owner/name").status()));
  options_.puller = "/no/such/tandem";
  EXPECT_THAT(Find("owner/name").status().message(), HasSubstr("exit code 127"));
}

TEST_F(LocalDirectoryTest, AMistypedPathIsNamedAsOne) {
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  fs::create_directories("demo/target");
  EXPECT_THAT(Find("demo/targt").status().message(), HasSubstr("in the folder demo"));
  fs::current_path(before);
}

}  // namespace
}  // namespace tandem::hub
