#include "model/families/families.h"

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
  EXPECT_THAT(ErrorAfter([](auto& json) { json["model_type"] = "bloom"; }),
              HasSubstr("model_type is \"bloom\": supported: llama"))
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
    std::vector<std::string> tensors = {t.embedding, t.layers, t.o,         t.up,
                                        t.down,      t.output, t.final_norm};
    // What a family may have in one matrix or leave out.
    if (t.fused_qkv == FusedQkv::kNone) {
      tensors.insert(tensors.end(), {t.q, t.k, t.v});
    } else {
      tensors.push_back(t.qkv);
    }
    const std::set<std::string> no_gate = {"gpt2", "opt", "gpt_neox"};
    if (no_gate.count(family->name) == 0) tensors.push_back(t.gate);
    if (family->name == "olmo2") {
      tensors.insert(tensors.end(), {t.post_attention_norm, t.post_mlp_norm});
    } else {
      tensors.insert(tensors.end(), {t.attention_norm, t.mlp_norm});
    }
    EXPECT_EQ(std::set<std::string>(tensors.begin(), tensors.end()).size(), tensors.size())
        << family->name;
    EXPECT_THAT(tensors, ::testing::Each(::testing::Not(::testing::IsEmpty()))) << family->name;
  }
}

TEST_F(Families, RotationOfAShareOfAHeadIsReadInBothSpellings) {
  const auto of = [&](const std::function<void(nlohmann::json&)>& change) {
    directory_.CopyModel("gpt_neox");
    directory_.EditJson("config.json", change);
    return ReadConfig(directory_.path());
  };
  const auto outside = of([](auto& json) {
    json["rope_parameters"].erase("partial_rotary_factor");
    json["partial_rotary_factor"] = 0.5;
  });
  ASSERT_TRUE(outside.ok()) << outside.status();
  EXPECT_EQ(outside->spec.rope.partial_rotary_factor, 0.5);
  EXPECT_EQ(of([](auto& json) { json["rotary_pct"] = 0.5; })->spec.rope.partial_rotary_factor, 0.25)
      << "that of the rope's own object counts";
  EXPECT_THAT(
      std::string(of([](auto& json) { json["rope_parameters"]["partial_rotary_factor"] = "half"; })
                      .status()
                      .message()),
      HasSubstr("partial_rotary_factor is \"half\": must be a number above 0"));
  EXPECT_THAT(
      std::string(of([](auto& json) { json["rope_parameters"]["partial_rotary_factor"] = 0.2; })
                      .status()
                      .message()),
      HasSubstr("partial_rotary_factor is 0.2: makes 3 of a head's 16 elements rotate"));
}

// published_configs.json: the fields of models' config.json, written after what their publishers
// say, in the layout of transformers 4 (a longrope's numbers are examples), and what they mean
// here.
TEST_F(Families, PublishedConfigsAreReadAsTheirModelsAre) {
  const auto models = nlohmann::json::parse(
      ReadBytes(tandem::testing::SourcePath("tests/model/families/published_configs.json")));
  std::set<std::string> families;
  for (const auto& [name, model] : models.items()) {
    WriteBytes(directory_.file("config.json"), model["config"].dump());
    const auto config = ReadConfig(directory_.path());
    ASSERT_TRUE(config.ok()) << name << ": " << config.status();
    EXPECT_EQ(config->Canonical(), model["canonical"].get<std::string>()) << name;
    EXPECT_FALSE(config->eos_token_ids.empty()) << name;
    families.insert(config->family->name);
  }
  EXPECT_EQ(families.size(), model::Families().size()) << "each family has one";
}

}  // namespace
}  // namespace tandem::model::testing
