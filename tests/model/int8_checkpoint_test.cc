// What the CPU makes of checkpoints whose weights are int8 already.
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/decoder_weights.h"
#include "model/offload.h"
#include "tests/model/files.h"
#include "tests/model/int8_checkpoint.h"
#include "tests/model/support.h"

namespace tandem::model::testing {
namespace {

using ::testing::HasSubstr;

class Int8CheckpointTest : public ::testing::Test, protected Int8Checkpoint {
 protected:
  static std::unique_ptr<LanguageModel> LoadAs(const std::string& directory,
                                               Dtype dtype = Dtype::kAuto) {
    LoadOptions options;
    options.directory = directory;
    options.dtype = dtype;
    options.pool_tokens = 256;
    auto model = Load(options);
    EXPECT_TRUE(model.ok()) << model.status();
    return *std::move(model);
  }

  std::string ErrorAfter(const std::function<void(nlohmann::json&)>& change) {
    const std::string before = ReadBytes(int8_.file("config.json"));
    int8_.EditJson("config.json",
                   [&](nlohmann::json& json) { change(json["quantization_config"]); });
    const std::string error = Error();
    WriteBytes(int8_.file("config.json"), before);
    return error;
  }
  std::string Error(Dtype dtype = Dtype::kAuto) {
    return std::string(
        Load({.directory = int8_.path(), .pool_tokens = 256, .dtype = dtype}).status().message());
  }

  const std::vector<uint32_t> text_ = {1, 5, 9, 33, 2, 70, 11, 64, 12, 3, 3, 8};
};

// Every weight is its integer times its scale, in one matrix with others or split from one, too.
TEST_F(Int8CheckpointTest, WeightsAreTheFilesNumbers) {
  for (const char* variant : {"llama2", "phi3", "gpt_neox", "biases"}) {
    SCOPED_TRACE(variant);
    Make(variant, Levels::kLibrary);
    const auto weights = [](const std::string& directory) {
      const auto config = *ReadConfig(directory);
      const auto checkpoint = *Checkpoint::Open(directory);
      const auto tensors = FindTensors(config.spec, config.family->tensors, checkpoint);
      EXPECT_TRUE(tensors.ok()) << tensors.status();
      return DecoderWeights(config.spec, *tensors, Dtype::kAuto, nullptr);
    };
    const DecoderWeights integers = weights(int8_.path());
    const DecoderWeights floats = weights(floats_.path());
    EXPECT_TRUE(integers.exact());
    for (size_t layer = 0; layer < floats.layers().size(); ++layer) {
      const DecoderLayer& left = integers.layers()[layer];
      const DecoderLayer& right = floats.layers()[layer];
      for (auto [a, b] :
           {std::pair{&left.qkv, &right.qkv}, std::pair{&left.o, &right.o},
            std::pair{&left.gate_up, &right.gate_up}, std::pair{&left.down, &right.down}}) {
        ASSERT_EQ(a->matrix.type(), cpu::WeightType::kInt8);
        std::vector<float> one(a->matrix.k());
        std::vector<float> two(a->matrix.k());
        for (int column = 0; column < b->matrix.columns(); ++column) {
          a->matrix.ReadColumn(column, one.data());
          b->matrix.ReadColumn(column, two.data());
          ASSERT_TRUE(SameBits(one, two)) << column;
        }
      }
    }
  }
}

// Integers and scales that int8 by row finds again in the numbers: the same bits, in every product.
TEST_F(Int8CheckpointTest, IsWhatInt8ByRowMakesOfTheSameNumbers) {
  Make("llama2", Levels::kOurs);
  const auto filed = LoadAs(int8_.path());
  const auto rounded = LoadAs(floats_.path(), Dtype::kInt8ByRow);
  const auto logits = AllLogits(*filed, text_, 5);
  const auto expected = AllLogits(*rounded, text_, 12);
  ASSERT_EQ(logits.size(), expected.size());
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_TRUE(SameBits(logits[i], expected[i])) << i;
}

// An embedding in int8 is looked up as the numbers that its integers and scales are.
TEST_F(Int8CheckpointTest, AnEmbeddingMayBeInt8) {
  Make("llama2", Levels::kOurs, /*table=*/true);
  const auto filed = LoadAs(int8_.path());
  const auto rounded = LoadAs(floats_.path(), Dtype::kInt8ByRow);
  const auto logits = AllLogits(*filed, text_, 5);
  const auto expected = AllLogits(*rounded, text_, 5);
  ASSERT_EQ(logits.size(), expected.size());
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_TRUE(SameBits(logits[i], expected[i])) << i;
  int8_.EditHeader([](auto& header) { header.erase("model.embed_tokens.weight_scale"); });
  EXPECT_THAT(Error(), HasSubstr("1 missing: model.embed_tokens.weight_scale"));
}

// Integers and scales that are read from the file in each pass: the same bits.
TEST_F(Int8CheckpointTest, WeightsThatStayInTheFileGiveTheSameBits) {
  Make("llama2", Levels::kOurs);
  const auto packed = LoadAs(int8_.path());
  const auto config = *ReadConfig(int8_.path());
  const auto checkpoint = *Checkpoint::Open(int8_.path());
  const auto tensors = *FindTensors(config.spec, config.family->tensors, checkpoint);
  Offload offload;
  offload.first_layer = 1;
  offload.output = true;
  DecoderOptions options;
  options.pool_tokens = 256;
  Decoder filed(config.spec, DecoderWeights(config.spec, tensors, Dtype::kAuto, nullptr, offload),
                options, {});
  EXPECT_EQ(AllLogits(filed, text_, 5), AllLogits(*packed, text_, 5));
}

// Activations are rounded, weights are not.
TEST_F(Int8CheckpointTest, IsCloseToTheSameNumbersInFloatingPoint) {
  Make("llama2", Levels::kLibrary);
  const auto filed = LoadAs(int8_.path());
  const auto floats = LoadAs(floats_.path());
  const auto logits = AllLogits(*filed, text_, 5);
  const auto expected = AllLogits(*floats, text_, 12);
  for (size_t i = 0; i < logits.size(); ++i) {
    EXPECT_LT(RelativeDeviation(logits[i], expected[i]), 0.08) << i;
    EXPECT_EQ(Greedy(logits[i]), Greedy(expected[i])) << i;
  }
  EXPECT_NE(filed->info().numerics_id, floats->info().numerics_id);
  const auto whole = LoadAs(int8_.path(), Dtype::kInt8);
  EXPECT_NE(filed->info().numerics_id, whole->info().numerics_id) << "the output is int8 by group";
  EXPECT_FALSE(SameBits(AllLogits(*whole, text_, 12)[3], logits[3]));
}

TEST_F(Int8CheckpointTest, OtherSchemesAreNamed) {
  Make("llama2", Levels::kLibrary);
  using Json = nlohmann::json;
  const auto group = [](Json& json) -> Json& { return json["config_groups"]["group_0"]; };
  struct Case {
    std::function<void(Json&)> change;
    const char* problem;
  };
  const Case cases[] = {
      {[](Json& j) { j["format"] = "float-quantized"; },
       "quantization_config.format is \"float-quantized\": served is \"int-quantized\" or "
       "\"pack-quantized\""},
      {[](Json& j) { j["format"] = "pack-quantized"; }, "weights.num_bits is 8: served is 4"},
      {[&](Json& j) { group(j)["weights"]["strategy"] = "group"; },
       "config_groups.group_0.weights.strategy is \"group\": served is \"channel\""},
      {[&](Json& j) { group(j)["weights"]["group_size"] = 128; }, "weights.group_size is 128"},
      {[&](Json& j) { group(j)["weights"]["symmetric"] = false; }, "weights.symmetric is false"},
      {[&](Json& j) { group(j)["weights"]["num_bits"] = 4; }, "weights.num_bits is 4"},
      {[&](Json& j) { group(j)["weights"]["type"] = "float"; }, "weights.type is \"float\""},
      {[&](Json& j) { group(j)["weights"]["actorder"] = "group"; }, "weights.actorder is"},
      {[&](Json& j) { group(j)["weights"]["blocks"] = 3; }, "weights.blocks is 3: unknown here"},
      {[&](Json& j) { group(j)["input_activations"]["dynamic"] = false; },
       "input_activations.dynamic is false: served is true"},
      {[&](Json& j) { group(j)["input_activations"]["strategy"] = "tensor"; },
       "input_activations.strategy is \"tensor\": served is \"token\""},
      {[&](Json& j) { group(j)["input_activations"] = nullptr; },
       "input_activations is null: it is required"},
      {[&](Json& j) {
         group(j)["output_activations"] = {{"num_bits", 8}};
       },
       "output_activations is {\"num_bits\":8}"},
      {[](Json& j) {
         j["kv_cache_scheme"] = {{"num_bits", 8}};
       },
       "kv_cache_scheme is"},
      {[](Json& j) {
         j["transform_config"] = {{"a", 1}};
       },
       "transform_config is {\"a\":1}"},
      {[](Json& j) { j.erase("config_groups"); }, "config_groups is missing: it is required"},
      {[](Json& j) { j["quant_method"] = "fp8"; }, "is quantised (quantization_config"},
      {[](Json& j) { j = nullptr; }, "weights are I8, and config.json has no quantization_config"},
  };
  for (const Case& each : cases) {
    const std::string error = ErrorAfter(each.change);
    EXPECT_THAT(error, HasSubstr(each.problem));
    EXPECT_THAT(error, HasSubstr("ive the ")) << "what to do";
  }
  EXPECT_THAT(ErrorAfter([](Json& j) {
                j["version"] = "0.12";
                j["transform_config"] = Json::object();
                j["config_groups"]["group_0"]["format"] = "int-quantized";
                j["config_groups"]["group_0"]["weights"]["zp_dtype"] = nullptr;
                j["config_groups"]["group_0"]["weights"]["scale_dtype"] = "torch.bfloat16";
              }),
              "")
      << "later versions of the library";
  for (Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16}) {
    EXPECT_THAT(Error(dtype), HasSubstr("the weights are int8 in the file"));
  }
}

TEST_F(Int8CheckpointTest, TensorsThatDoNotFitAreNamed) {
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  Make("llama2", Levels::kLibrary);
  const auto error_after = [&](const std::function<void(nlohmann::json&)>& change) {
    const std::string before = ReadBytes(int8_.file("model.safetensors"));
    int8_.EditHeader(change);
    const std::string error = Error();
    WriteBytes(int8_.file("model.safetensors"), before);
    return error;
  };
  EXPECT_THAT(error_after([&](auto& header) { header.erase(q + "_scale"); }),
              HasSubstr("1 missing: " + q + "_scale [32, 1]"));
  EXPECT_THAT(error_after([&](auto& header) {
                header[q + "_scale"]["shape"] = {8, 4};
              }),
              HasSubstr(q + "_scale is [8, 4], config.json makes it [32, 1]"));
  EXPECT_EQ(error_after(
                [&](auto& header) { header[q + "_scale"]["shape"] = nlohmann::json::array({32}); }),
            "");
  EXPECT_THAT(error_after([&](auto& header) {
                header["model.layers.0.self_attn.q_proj.weight_zero_point"] = header[q];
                header[q] = header["model.layers.1.self_attn.q_proj.weight"];
                header["model.layers.1.self_attn.q_proj.weight"] =
                    header["model.layers.1.self_attn.k_proj.weight"];
                header.erase("model.layers.1.self_attn.k_proj.weight");
              }),
              HasSubstr("weight_zero_point is not zero"));
  EXPECT_THAT(error_after([&](auto& header) {
                // The float32 embedding has more bytes than it takes.
                header[q]["dtype"] = "F32";
                const int64_t begin = header["model.embed_tokens.weight"]["data_offsets"][0];
                header[q]["data_offsets"] = {begin, begin + 32 * 32 * 4};
                header.erase("model.embed_tokens.weight");
              }),
              HasSubstr("2 of the 3 matrices that begin with " + q + " are I8"));
  Make("llama2", Levels::kLibrary);
  WriteBytes(int8_.file("model.safetensors"), ReadBytes(floats_.file("model.safetensors")));
  EXPECT_THAT(Error(), HasSubstr("says int-quantized, and no weight is I8"));
}

}  // namespace
}  // namespace tandem::model::testing
