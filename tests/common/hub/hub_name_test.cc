#include "common/hub/hub_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/hub/repository_files.h"

namespace tandem::hub {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HubNameTest, ReadsNamesAndRevisions) {
  EXPECT_EQ(ParseHubName("Qwen/Qwen3-0.6B").value(), (HubName{"Qwen/Qwen3-0.6B", "main"}));
  EXPECT_EQ(ParseHubName("a/b@refs/pr/7").value(), (HubName{"a/b", "refs/pr/7"}));
  EXPECT_EQ(ParseHubName("a_b/c.d@v1.0+x").value().revision, "v1.0+x");
  EXPECT_EQ(ParseHubName("a/b@main").value().Text(), "a/b");
  EXPECT_EQ(ParseHubName("a/b@x").value().Text(), "a/b@x");
  EXPECT_EQ(ParseHubName("a/b-GGUF:q/m (v1@2).gguf").value(),
            (HubName{"a/b-GGUF", "main", "q/m (v1@2).gguf"}));
  EXPECT_EQ(ParseHubName("a/b@v1:m.gguf").value(), (HubName{"a/b", "v1", "m.gguf"}));
  EXPECT_EQ(ParseHubName("a/b@v1:m.gguf").value().Text(), "a/b@v1:m.gguf");
}

TEST(HubNameTest, RefusesWhatTheHubOrAPathWouldNotTake) {
  for (const char* text : {"",
                           "gpt2",
                           "a/b/c",
                           "/a/b",
                           "./a",
                           "../b",
                           "a/..",
                           "a/b..c",
                           "a--b/c",
                           "-a/b",
                           "a/b-",
                           "a/.b",
                           "a b/c",
                           "a/b.git",
                           "a/b@",
                           "a/b@..",
                           "a/b@x/../y",
                           "a/b@/x",
                           "a/b@x//y",
                           "a/b@x y",
                           "a/b@.x",
                           "a/b@x@y",
                           "https://host/a/b",
                           "a/\xc3\xa4",
                           "a/b:",
                           "a/b:m.bin",
                           "a/b:/m.gguf",
                           "a/b:../m.gguf",
                           "a/b:q/.gguf",
                           "a/b:q//m.gguf",
                           "a/b:q\\m.gguf",
                           "a/b:m\n.gguf",
                           "b:m.gguf",
                           "a/b:c:m.gguf",
                           "a/b@x?y",
                           "a/b@x%2f"}) {
    const auto name = ParseHubName(text);
    EXPECT_FALSE(name.ok()) << text;
    EXPECT_THAT(name.status().message(), HasSubstr("OWNER/NAME@REVISION")) << text;
  }
  EXPECT_FALSE(ParseHubName("a/" + std::string(95, 'b')).ok());
  EXPECT_TRUE(ParseHubName("a/" + std::string(94, 'b')).ok());
}

TEST(HubNameTest, KnowsCommits) {
  EXPECT_TRUE(IsCommit("0123456789abcdef0123456789abcdef01234567"));
  EXPECT_FALSE(IsCommit("0123456789abcdef0123456789abcdef0123456"));
  EXPECT_FALSE(IsCommit("0123456789ABCDEF0123456789abcdef01234567"));
  EXPECT_FALSE(IsCommit("main"));
}

TEST(RepositoryFilesTest, ReadsTheFilesOfAnIndex) {
  EXPECT_THAT(IndexedFiles(R"({"weight_map": {"b": "m-2.safetensors", "a": "m-1.safetensors",
                               "c": "m-2.safetensors"}})")
                  .value(),
              ElementsAre("m-1.safetensors", "m-2.safetensors"));
}

TEST(RepositoryFilesTest, AnIndexCannotNameWhatIsElsewhere) {
  for (const char* text :
       {"", "[]", "{}", R"({"weight_map": {}})", R"({"weight_map": {"a": 1}})",
        R"({"weight_map": {"a": "../x.safetensors"}})", R"({"weight_map": {"a": "x.bin"}})",
        R"({"weight_map": {"a": "/etc/x.safetensors"}})",
        R"({"weight_map": {"a": ".safetensors"}})"}) {
    EXPECT_FALSE(IndexedFiles(text).ok()) << text;
  }
}

}  // namespace
}  // namespace tandem::hub
