#include "model/families/family.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/config.h"
#include "tests/model/files.h"

namespace tandem::model::testing {
namespace {

using ::testing::HasSubstr;

class Families : public ::testing::Test {
 protected:
  // What ReadConfig gives for a model of the Llama family whose config.json was changed.
  absl::StatusOr<ModelConfig> After(const std::function<void(nlohmann::json&)>& change) {
    directory_.CopyModel("llama3");
    directory_.EditJson("config.json", change);
    return ReadConfig(directory_.path());
  }
  std::string ErrorAfter(const std::function<void(nlohmann::json&)>& change) {
    return std::string(After(change).status().message());
  }

  TemporaryDirectory directory_;
};

TEST_F(Families, ModelTypeDecides) {
  const auto config = After([](auto& json) { json["architectures"] = {"AnyForCausalLM"}; });
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->family->name, "llama");
  EXPECT_THAT(ErrorAfter([](auto& json) { json["model_type"] = "mamba"; }),
              HasSubstr("model_type is \"mamba\": supported: llama"))
      << "though its architecture is a Llama's";
}

TEST_F(Families, ArchitecturesDecideWithoutAModelType) {
  const auto config = After([](auto& json) {
    json.erase("model_type");
    json["architectures"] = {"AnyForCausalLM", "LlamaForCausalLM"};
  });
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->family->name, "llama");
  EXPECT_THAT(ErrorAfter([](auto& json) {
                json.erase("model_type");
                json["architectures"] = {"AnyForCausalLM", 5};
              }),
              HasSubstr("architectures is [\"AnyForCausalLM\",5]: supported: LlamaForCausalLM"));
  EXPECT_THAT(ErrorAfter([](auto& json) {
                json.erase("model_type");
                json["architectures"] = "LlamaForCausalLM";
              }),
              HasSubstr("architectures is \"LlamaForCausalLM\": supported: LlamaForCausalLM"))
      << "which is no list";
}

TEST_F(Families, WithoutBothTheServedAreNamed) {
  EXPECT_THAT(ErrorAfter([](auto& json) {
                json.erase("model_type");
                json.erase("architectures");
              }),
              HasSubstr("model_type is missing: supported: llama"));
  EXPECT_THAT(ErrorAfter([](auto& json) { json["model_type"] = 5; }),
              HasSubstr("model_type is 5: supported: llama"));
}

TEST_F(Families, EachIsCompleteAndLikeNoOther) {
  std::set<std::string> names;
  std::set<std::string> architectures;
  for (const Family* family : model::Families()) {
    EXPECT_TRUE(names.insert(family->name).second) << family->name;
    EXPECT_FALSE(family->architectures.empty()) << family->name;
    for (const std::string& architecture : family->architectures) {
      EXPECT_TRUE(architectures.insert(architecture).second) << architecture;
    }
    ASSERT_NE(family->read, nullptr) << family->name;
    const TensorNames& t = family->tensors;
    const std::vector<std::string> tensors = {
        t.embedding, t.layers, t.attention_norm, t.q,          t.k,     t.v, t.o, t.mlp_norm,
        t.gate,      t.up,     t.down,           t.final_norm, t.output};
    EXPECT_EQ(std::set<std::string>(tensors.begin(), tensors.end()).size(), tensors.size())
        << family->name;
    EXPECT_THAT(tensors, ::testing::Each(::testing::Not(::testing::IsEmpty()))) << family->name;
  }
}

TEST_F(Families, RotationOfAShareOfAHeadIsReadInBothSpellings) {
  EXPECT_EQ(After([](auto& json) {
              json["partial_rotary_factor"] = 0.5;
            })->spec.rope.partial_rotary_factor,
            0.5);
  EXPECT_EQ(After([](auto& json) {
              json["rope_parameters"]["partial_rotary_factor"] = 0.25;
            })->spec.rope.partial_rotary_factor,
            0.25);
  EXPECT_THAT(ErrorAfter([](auto& json) { json["partial_rotary_factor"] = "half"; }),
              HasSubstr("partial_rotary_factor is \"half\": must be a number above 0"));
}

}  // namespace
}  // namespace tandem::model::testing
