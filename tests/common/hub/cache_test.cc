#include "common/hub/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/hub/snapshot_directory.h"
#include "tests/common/hub/hub_cache.h"

namespace tandem::hub {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class HubCacheTest : public HubCache {
 protected:
  absl::StatusOr<Snapshot> Find(const std::string& revision, Need need = Need::kModel) {
    return FindSnapshot(folder_, {"owner/name", revision}, need);
  }
  std::string Missing(Need need) { return std::string(Find("main", need).status().message()); }
};

TEST_F(HubCacheTest, FoldersAreThoseOfHuggingfaceHub) {
  EXPECT_EQ(folder_.path(), root_ / "models--owner--name");
  EXPECT_EQ(folder_.Lock("e"), root_ / ".locks/models--owner--name/e.lock");
  EXPECT_EQ(folder_.Ref("refs/pr/7"), root_ / "models--owner--name/refs/refs/pr/7");
}

TEST(ModelName, IsOwnerAndNameInTheCacheAndElseTheFolders) {
  for (const char* directory :
       {"/hub/models--owner--name/snapshots/0123abcd",
        "/hub/models--owner--name/snapshots/0123abcd/", "/hub/models--owner--name"}) {
    EXPECT_EQ(ModelName(directory), "owner/name") << directory;
  }
  EXPECT_EQ(ModelName("/hub/models--gpt2/snapshots/0123abcd"), "gpt2");
  EXPECT_EQ(ModelName("demo/target/"), "target");
  EXPECT_EQ(ModelName("/snapshots/1"), "1");
  for (const char* directory : {"", "/", ".", "a/..", "./"}) {
    EXPECT_EQ(ModelName(directory), "") << directory;
  }
}

TEST_F(HubCacheTest, ARevisionLeadsToItsSnapshot) {
  LinkModel();
  Write(folder_.Ref("refs/pr/7"), absl::StrCat(kCommit, "\n"));
  for (const char* revision : {"main", "refs/pr/7", kCommit}) {
    const auto found = Find(revision);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->commit, kCommit);
    EXPECT_EQ(found->path, folder_.Snapshot(kCommit).string());
  }
  // The folder of the repository, wherever it is.
  const auto found =
      FindSnapshot(RepositoryFolder(folder_.path()), {"owner/name"}, Need::kTokenizer);
  EXPECT_TRUE(found.ok()) << found.status();
}

TEST_F(HubCacheTest, AFileIsThereWithAllItsParts) {
  Write(folder_.Ref("main"), kCommit);
  const auto find = [this](const char* file) {
    return FindSnapshot(folder_, {"owner/name", "main", file}, Need::kModel);
  };
  Link("m.gguf");
  EXPECT_EQ(find("m.gguf")->path, (folder_.Snapshot(kCommit) / "m.gguf").string());
  Link("m-00001-of-00002.gguf");
  EXPECT_THAT(find("m-00001-of-00002.gguf").status().message(),
              HasSubstr("lacks m-00002-of-00002.gguf"));
  Link("m-00002-of-00002.gguf");
  EXPECT_TRUE(find("m-00001-of-00002.gguf").ok());
  EXPECT_THAT(find("m-00002-of-00002.gguf").status().message(), HasSubstr("give the first part"));
  EXPECT_FALSE(Find("main").ok());
}

TEST_F(HubCacheTest, AnUnknownRevisionNamesThoseThatAreKnown) {
  EXPECT_THAT(Missing(Need::kModel), HasSubstr("there is no "));
  LinkModel();
  Write(folder_.Ref("v1"), kCommit);
  const auto status = Find("v2").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(status.message(), HasSubstr("the revision v2; it knows main, v1"));
  Write(folder_.Ref("bad"), "../../../etc");
  EXPECT_FALSE(Find("bad").ok());
}

TEST_F(HubCacheTest, APartOfAModelIsNone) {
  LinkModel();
  for (const char* file : {"config.json", "generation_config.json", "tokenizer.json",
                           "tokenizer_config.json", "model.safetensors"}) {
    const fs::path link = folder_.Snapshot(kCommit) / file;
    fs::rename(link, root_ / "away");
    EXPECT_THAT(Missing(Need::kModel), HasSubstr(file));
    fs::rename(root_ / "away", link);
  }
  EXPECT_TRUE(Find("main").ok());
  fs::remove(folder_.Blob("blob-model.safetensors"));  // a link to nothing
  EXPECT_THAT(Missing(Need::kModel), HasSubstr("model.safetensors"));
  EXPECT_TRUE(Find("main", Need::kTokenizer).ok());
}

TEST_F(HubCacheTest, AllShardsOfAnIndexAreNeeded) {
  LinkModel();
  fs::remove(folder_.Snapshot(kCommit) / "model.safetensors");
  Link("model.safetensors.index.json",
       R"({"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}})");
  Link("m-1.safetensors");
  EXPECT_THAT(Missing(Need::kModel), HasSubstr("lacks m-2.safetensors"));
  Link("m-2.safetensors");
  EXPECT_TRUE(Find("main").ok());
}

TEST_F(HubCacheTest, AFileThatTheRepositoryDoesNotHaveIsNotMissing) {
  LinkModel();
  fs::remove(folder_.Snapshot(kCommit) / "generation_config.json");
  EXPECT_THAT(Missing(Need::kModel), HasSubstr("generation_config.json"));
  Write(folder_.NoExist(kCommit, "generation_config.json"), "");
  EXPECT_TRUE(Find("main").ok());
  fs::remove(folder_.NoExist(kCommit, "generation_config.json"));

  Write(folder_.Tree(kCommit), R"({"format_version": 1, "files": {"config.json": {}}})");
  EXPECT_TRUE(Find("main").ok());
  Write(folder_.Tree(kCommit), R"({"format_version": 1, "files": {"generation_config.json": {}}})");
  EXPECT_FALSE(Find("main").ok());
  for (const char* text : {R"({"format_version": 2, "files": {}})", "{", "[]", ""}) {
    Write(folder_.Tree(kCommit), text);
    EXPECT_FALSE(Find("main").ok()) << text;
  }
}

}  // namespace
}  // namespace tandem::hub
