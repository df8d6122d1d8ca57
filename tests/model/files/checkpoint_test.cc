#include "model/files/checkpoint.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/files.h"

namespace tandem::model::testing {
namespace {

using ::testing::HasSubstr;

TEST(Checkpoint, ShardsAreJoinedAndChecked) {
  TemporaryDirectory directory;
  directory.CopyModel("sharded");
  ASSERT_TRUE(Checkpoint::Open(directory.path()).ok());
  directory.EditJson("model.safetensors.index.json", [](nlohmann::json& index) {
    index["weight_map"]["no.such.tensor"] = index["weight_map"].begin().value();
  });
  EXPECT_THAT(std::string(Checkpoint::Open(directory.path()).status().message()),
              HasSubstr("lacks tensor no.such.tensor"));
  directory.EditJson("model.safetensors.index.json", [](nlohmann::json& index) {
    index["weight_map"]["no.such.tensor"] = "../elsewhere.safetensors";
  });
  EXPECT_THAT(std::string(Checkpoint::Open(directory.path()).status().message()),
              HasSubstr("weight_map"));
  directory.EditJson("model.safetensors.index.json", [](nlohmann::json& index) {
    index["weight_map"]["no.such.tensor"] = "gone.safetensors";
  });
  EXPECT_THAT(std::string(Checkpoint::Open(directory.path()).status().message()),
              HasSubstr("gone.safetensors"));
}

}  // namespace
}  // namespace tandem::model::testing
