#include "common/hub/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace tandem::hub {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Environment = std::map<std::string, std::string>;

absl::StatusOr<Settings> Read(const Environment& environment) {
  return ReadSettings([&environment](const char* name) -> const char* {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

TEST(SettingsTest, TheCacheIsWhereHuggingfaceHubHasIt) {
  EXPECT_EQ(Read({{"HOME", "/h"}})->cache, "/h/.cache/huggingface/hub");
  EXPECT_EQ(Read({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}})->cache, "/x/huggingface/hub");
  EXPECT_EQ(Read({{"HOME", "/h"}, {"HF_HOME", "~/models"}})->cache, "/h/models/hub");
  EXPECT_EQ(Read({{"D", "/data"}, {"HF_HOME", "$D/a"}})->cache, "/data/a/hub");
  EXPECT_EQ(Read({{"D", "/data"}, {"HF_HOME", "${D}b/$NONE"}})->cache, "/datab/$NONE/hub");
  EXPECT_EQ(Read({{"HF_HOME", "/x"}, {"HUGGINGFACE_HUB_CACHE", "/old"}})->cache, "/old");
  EXPECT_EQ(Read({{"HUGGINGFACE_HUB_CACHE", "/old"}, {"HF_HUB_CACHE", "/new"}})->cache, "/new");
  EXPECT_EQ(Read({{"HF_HUB_CACHE", ""}, {"HF_HOME", "/x"}})->cache, "/x/hub");
}

TEST(SettingsTest, EndpointOfflineAndTimeout) {
  EXPECT_THAT(Read({})->endpoint, HasSubstr("https://"));
  EXPECT_EQ(Read({{"HF_ENDPOINT", "http://127.0.0.1:1/hub//"}})->endpoint,
            "http://127.0.0.1:1/hub");
  for (const char* bad : {"mirror.example", "ftp://x", "http://a b", "http://x?y"}) {
    EXPECT_FALSE(Read({{"HF_ENDPOINT", bad}}).ok()) << bad;
  }
  EXPECT_FALSE(Read({})->offline);
  EXPECT_FALSE(Read({{"HF_HUB_OFFLINE", "0"}})->offline);
  for (const char* on : {"1", "on", "Yes", "TRUE"}) {
    EXPECT_TRUE(Read({{"HF_HUB_OFFLINE", on}})->offline) << on;
  }
  EXPECT_TRUE(Read({{"TRANSFORMERS_OFFLINE", "1"}})->offline);
  EXPECT_EQ(Read({{"HF_HUB_DOWNLOAD_TIMEOUT", "30"}})->timeout, absl::Seconds(30));
  for (const char* bad : {"0", "x", "1.5", "-3", "999999"}) {
    EXPECT_FALSE(Read({{"HF_HUB_DOWNLOAD_TIMEOUT", bad}}).ok()) << bad;
  }
}

TEST(SettingsTest, TheTokenIsOfAVariableOrOfAFile) {
  const std::string home = ::testing::TempDir() + "/hub_settings_token";
  std::filesystem::create_directories(home);
  std::ofstream(home + "/token") << " hf_file\n";
  EXPECT_EQ(Read({{"HF_HOME", home}})->token, "hf_file");
  EXPECT_EQ(Read({{"HF_HOME", home}})->token_source, home + "/token");
  EXPECT_EQ(Read({{"HF_HOME", "/none"}, {"HF_TOKEN_PATH", home + "/token"}})->token, "hf_file");
  EXPECT_EQ(Read({{"HF_HOME", home}, {"HF_TOKEN", "hf_a\n"}})->token, "hf_a");
  EXPECT_EQ(Read({{"HF_HOME", home}, {"HUGGING_FACE_HUB_TOKEN", "hf_b"}})->token, "hf_b");
  EXPECT_EQ(Read({{"HF_HOME", "/none"}})->token, "");
  EXPECT_EQ(Read({{"HF_HOME", "/none"}})->token_source, "");
  // A second line would become a header of its own.
  const auto two = Read({{"HF_TOKEN", "hf_secret\r\nHost: other"}});
  ASSERT_FALSE(two.ok());
  EXPECT_THAT(two.status().message(), HasSubstr("HF_TOKEN"));
  EXPECT_THAT(two.status().message(), Not(HasSubstr("hf_secret")));
  std::filesystem::remove_all(home);
}

}  // namespace
}  // namespace tandem::hub
