#include "model/config.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/generation_config.h"
#include "tests/model/files.h"

namespace tandem::model::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Config : public ::testing::Test {
 protected:
  Config() { directory_.CopyModel("llama3"); }

  std::string ErrorAfter(const std::function<void(nlohmann::json&)>& change) {
    directory_.CopyModel("llama3");
    directory_.EditJson("config.json", change);
    return std::string(ReadConfig(directory_.path()).status().message());
  }

  TemporaryDirectory directory_;
};

TEST_F(Config, Transformers5And4GiveTheSame) {
  auto five = ReadConfig(directory_.path());
  ASSERT_TRUE(five.ok()) << five.status();
  EXPECT_EQ(five->spec.rope.scaling, RopeSpec::Scaling::kLlama3);
  EXPECT_EQ(five->spec.rope.theta, 500000.0);
  EXPECT_EQ(five->spec.rope.factor, 8.0);
  EXPECT_THAT(five->eos_token_ids, ElementsAre(2, 3));
  directory_.CopyModel("llama3_config4");
  auto four = ReadConfig(directory_.path());
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_EQ(four->Canonical(), five->Canonical());
}

TEST_F(Config, EndTokensOfBothFilesEndTheText) {
  directory_.EditJson("generation_config.json", [](nlohmann::json& json) {
    json["eos_token_id"] = {7, 3, 7};
  });
  EXPECT_THAT(ReadConfig(directory_.path())->eos_token_ids, ElementsAre(2, 3, 7));
  std::filesystem::remove(directory_.file("generation_config.json"));
  EXPECT_THAT(ReadConfig(directory_.path())->eos_token_ids, ElementsAre(2, 3));
}

class GenerationConfig : public Config {
 protected:
  absl::StatusOr<SamplingDefaults> Read(const std::string& text) {
    WriteBytes(directory_.file("generation_config.json"), text);
    return ReadSamplingDefaults(directory_.path());
  }
};

TEST_F(GenerationConfig, TellsWhatIsWritten) {
  SamplingDefaults all;
  all.temperature = 0.6f;
  all.top_k = 50;
  all.top_p = 0.9f;
  all.min_p = 0.05f;
  all.repetition_penalty = 1.1f;
  auto read =
      Read(R"({"do_sample": true, "temperature": 0.6, "top_k": 50, "top_p": 0.9, "min_p": 0.05,)"
           R"( "repetition_penalty": 1.1, "eos_token_id": 3, "max_length": 20})");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, all);
  EXPECT_EQ(*Read("{}"), SamplingDefaults());
  EXPECT_EQ(*Read(R"({"temperature": null, "do_sample": null, "top_k": null})"),
            SamplingDefaults());
  std::filesystem::remove(directory_.file("generation_config.json"));
  EXPECT_EQ(*ReadSamplingDefaults(directory_.path()), SamplingDefaults());
}

TEST_F(GenerationConfig, DoSampleFalseIsTemperatureZeroWhereItIsWritten) {
  EXPECT_EQ(Read(R"({"do_sample": false})")->temperature, 0);
  EXPECT_EQ(Read(R"({"do_sample": false, "temperature": 0.6})")->temperature, 0);
  EXPECT_EQ(Read(R"({"do_sample": false, "top_k": 7})")->top_k, 7u);
  EXPECT_EQ(Read(R"({"do_sample": true})")->temperature, std::nullopt);
  EXPECT_EQ(Read(R"({"temperature": 0.6})")->temperature, 0.6f);
}

TEST_F(GenerationConfig, NamesFileFieldAndValue) {
  struct Case {
    const char* text;
    const char* problem;
  };
  const Case cases[] = {
      {R"({"temperature": "hot"})", "temperature is \"hot\": must be a number from 0 to 100"},
      {R"({"temperature": -0.1})", "temperature is -0.1: must be a number from 0 to 100"},
      {R"({"temperature": 101})", "temperature is 101: must be"},
      {R"({"do_sample": 0})", "do_sample is 0: must be true or false"},
      {R"({"top_k": -1})", "top_k is -1: must be a whole number from 0 (all tokens)"},
      {R"({"top_k": 2.5})", "top_k is 2.5: must be"},
      {R"({"top_k": 18446744073709551615})", "top_k is 18446744073709551615: must be"},
      {R"({"top_p": 0})", "top_p is 0: must be a number above 0, to 1"},
      {R"({"top_p": 1e-60})", "top_p is 1e-60: must be a number above 0, to 1"},
      {R"({"top_p": [0.5]})", "top_p is [0.5]: must be"},
      {R"({"min_p": 1.5})", "min_p is 1.5: must be a number from 0 to 1"},
      {R"({"repetition_penalty": 0})", "repetition_penalty is 0: must be a number above 0, to 10"},
      {R"({"repetition_penalty": 11})", "repetition_penalty is 11: must be"},
      {"[]", "is not a JSON object"},
  };
  for (const Case& c : cases) {
    const absl::Status status = Read(c.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.text;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("generation_config.json"), HasSubstr(c.problem)));
  }
  EXPECT_THAT(std::string(Read(R"({"top_k": -1, "min_p": 2})").status().message()),
              AllOf(HasSubstr("top_k is -1"), HasSubstr("; min_p is 2")));
}

TEST_F(GenerationConfig, RefusesWhatWouldChangeTheText) {
  const char* const cases[] = {
      "\"typical_p\": 0.9",          "\"no_repeat_ngram_size\": 3", "\"num_beams\": 4",
      "\"num_beam_groups\": 2",      "\"penalty_alpha\": 0.6",      "\"bad_words_ids\": [[3]]",
      "\"suppress_tokens\": [1, 2]", "\"forced_eos_token_id\": 3",  "\"min_length\": 5",
      "\"guidance_scale\": 1.5",     "\"stop_strings\": \"end\"",   "\"token_healing\": true",
      "\"num_beams\": \"many\""};
  for (const std::string text : cases) {
    const absl::Status status = Read("{" + text + "}").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    const std::string name = text.substr(1, text.find('"', 1) - 1);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("generation_config.json: " + name + " is "),
                      HasSubstr("not supported"), HasSubstr("--generation-config=none")));
  }
  EXPECT_THAT(
      std::string(Read(R"({"num_beams": 4, "top_k": -1, "typical_p": 0.2})").status().message()),
      AllOf(HasSubstr("top_k is -1"), HasSubstr("; num_beams is 4"), HasSubstr("; typical_p is ")));
  // The values that do nothing.
  EXPECT_TRUE(Read(R"({"typical_p": 1.0, "no_repeat_ngram_size": 0, "num_beams": 1,)"
                   R"( "penalty_alpha": null, "bad_words_ids": [], "token_healing": false,)"
                   R"( "guidance_scale": 1, "min_length": 0, "epsilon_cutoff": 0.0})")
                  .ok());
}

TEST_F(GenerationConfig, NamesWhatItDoesNotFollow) {
  const auto unused = [&](const std::string& text) {
    WriteBytes(directory_.file("generation_config.json"), text);
    std::vector<std::string> names;
    const absl::Status status = ReadSamplingDefaults(directory_.path(), &names).status();
    EXPECT_TRUE(status.ok()) << status;
    return names;
  };
  EXPECT_THAT(unused(R"({"max_length": 20, "max_new_tokens": 9, "strange": null, "odd": "x"})"),
              ElementsAre("max_length", "max_new_tokens", "odd"));
  EXPECT_THAT(unused(R"({"do_sample": true, "temperature": 0.6, "top_k": 50, "top_p": 0.9,)"
                     R"( "min_p": 0.1, "repetition_penalty": 1.1, "eos_token_id": 3,)"
                     R"( "bos_token_id": 1, "pad_token_id": 0, "transformers_version": "5.23.0",)"
                     R"( "_from_model_config": true, "use_cache": true})"),
              ElementsAre());
  // Greedy text does not follow what shapes a distribution.
  EXPECT_THAT(unused(R"({"do_sample": false, "typical_p": 0.9})"), ElementsAre("typical_p"));
}

TEST_F(Config, OptionalFieldsHaveTheirDefaults) {
  directory_.EditJson("config.json", [](nlohmann::json& json) {
    for (const char* name : {"head_dim", "num_key_value_heads", "rope_parameters", "eos_token_id",
                             "attention_bias", "mlp_bias", "tie_word_embeddings"}) {
      json.erase(name);
    }
    json["rope_scaling"] = nullptr;
  });
  auto config = ReadConfig(directory_.path());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->spec.head_size, 16);
  EXPECT_EQ(config->spec.kv_heads, config->spec.heads);
  EXPECT_EQ(config->spec.rope.scaling, RopeSpec::Scaling::kNone);
  EXPECT_EQ(config->spec.rope.theta, 10000.0);
  EXPECT_FALSE(config->spec.tied_embeddings);
}

TEST_F(Config, NamesFieldValueAndWhatIsSupported) {
  EXPECT_THAT(ErrorAfter([](auto& json) { json["model_type"] = "bloom"; }),
              HasSubstr("model_type is \"bloom\": supported: llama"));
  EXPECT_THAT(ErrorAfter([](auto& json) { json["rope_parameters"]["rope_type"] = "spiral"; }),
              HasSubstr("rope_parameters.rope_type is \"spiral\": supported: default, linear, "
                        "dynamic, llama3, yarn, longrope"));
  EXPECT_THAT(ErrorAfter([](auto& json) { json["hidden_act"] = "gelu"; }),
              HasSubstr("hidden_act is \"gelu\": supported: silu"));
  EXPECT_THAT(ErrorAfter([](auto& json) {
                json["quantization_config"] = {{"bits", 4}};
              }),
              HasSubstr("quantised weights are not supported"));
  EXPECT_THAT(ErrorAfter([](auto& json) { json["num_key_value_heads"] = 3; }),
              HasSubstr("num_key_value_heads is 3: must divide num_attention_heads (2)"));
  EXPECT_THAT(ErrorAfter([](auto& json) { json["head_dim"] = 7; }), HasSubstr("must be even"));
  EXPECT_THAT(ErrorAfter([](auto& json) { json["rms_norm_eps"] = 0; }),
              HasSubstr("rms_norm_eps is 0: must be a number above 0"));
  EXPECT_THAT(ErrorAfter([](auto& json) { json["vocab_size"] = 2; }),
              HasSubstr("eos_token_id 2 is not below vocab_size 2"));
  EXPECT_THAT(ErrorAfter([](auto& json) { json["rope_parameters"].erase("factor"); }),
              HasSubstr("rope_parameters.factor is missing"));
}

TEST_F(Config, AllProblemsInOneError) {
  std::string error = ErrorAfter([](auto& json) {
    json["sliding_window"] = 7;
    json["hidden_size"] = -1;
    json.erase("vocab_size");
    json["tie_word_embeddings"] = "yes";
  });
  EXPECT_THAT(error, HasSubstr("sliding_window is 7"));
  EXPECT_THAT(error, HasSubstr("hidden_size is -1"));
  EXPECT_THAT(error, HasSubstr("vocab_size is missing"));
  EXPECT_THAT(error, HasSubstr("tie_word_embeddings is \"yes\": must be true or false"));
}

// An unknown family's fields may be called otherwise: what they lack says nothing.
TEST_F(Config, OfAnUnknownFamilyItsNameIsTheOnlyProblem) {
  const std::string error = ErrorAfter([](auto& json) {
    json = {{"model_type", "bloom"}, {"n_layer", 24}, {"eos_token_id", 2}};
  });
  EXPECT_THAT(error, HasSubstr("model_type is \"bloom\": supported: llama, mistral"));
  EXPECT_THAT(error, ::testing::Not(HasSubstr(";")));
}

TEST_F(Config, FieldsThatChangeTheArithmeticAreReadOrRefused) {
  const auto refused = [&](const char* name, const nlohmann::json& value) {
    return ErrorAfter([&](auto& json) { json[name] = value; });
  };
  const std::pair<const char*, nlohmann::json> cases[] = {
      {"attn_logit_softcapping", 50.0}, {"clip_qkv", 8},
      {"embedding_multiplier", 12.0},   {"layer_types", {"full_attention"}},
      {"partial_rotary_factor", 0.5},   {"use_qk_norm", true},
      {"query_pre_attn_scalar", 256}};
  for (const auto& [name, value] : cases) {
    EXPECT_THAT(refused(name, value), HasSubstr(absl::StrCat(name, " is ", value.dump(),
                                                             ": not supported in this family")));
  }
  const std::pair<const char*, nlohmann::json> neutral[] = {{"attn_logit_softcapping", nullptr},
                                                            {"embedding_multiplier", 1.0},
                                                            {"partial_rotary_factor", 1},
                                                            {"use_qk_norm", false},
                                                            {"num_experts", 0},
                                                            {"pretraining_tp", 1},
                                                            {"initializer_range", 0.02},
                                                            {"torch_dtype", "bfloat16"}};
  for (const auto& [name, value] : neutral) EXPECT_EQ(refused(name, value), "") << name;
  EXPECT_THAT(ErrorAfter([](auto& json) {
                json["rope_parameters"]["mrope_section"] = {1, 2};
              }),
              HasSubstr("rope_parameters.mrope_section is [1,2]: not supported with this rope"));
}

TEST_F(Config, NestingHasALimit) {
  std::string deep(200000, '[');
  deep.resize(400000, ']');
  WriteBytes(directory_.file("config.json"), "{\"quantization_config\":" + deep + "}");
  absl::Status status = ReadConfig(directory_.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nested more than"));
}

TEST_F(Config, MissingAndBrokenFiles) {
  absl::Status status = ReadConfig(directory_.file("nowhere")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not exist"));
  WriteBytes(directory_.file("config.json"), "{");
  EXPECT_THAT(std::string(ReadConfig(directory_.path()).status().message()),
              HasSubstr("is not a JSON object"));
  std::filesystem::remove(directory_.file("config.json"));
  EXPECT_EQ(ReadConfig(directory_.path()).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tandem::model::testing
