// Checkpoints whose weights are int8 already, as compressed-tensors writes them (int-quantized).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/cpu/half.h"
#include "model/decoder_weights.h"
#include "model/files/safetensors.h"
#include "model/offload.h"
#include "tests/model/files.h"
#include "tests/model/support.h"

namespace tandem::model::testing {
namespace {

using ::testing::HasSubstr;

// What the library writes for w8a8.
constexpr char kScheme[] = R"({
  "config_groups": {"group_0": {
    "input_activations": {"actorder": null, "block_structure": null, "dynamic": true,
      "group_size": null, "num_bits": 8, "observer": "memoryless", "observer_kwargs": {},
      "strategy": "token", "symmetric": true, "type": "int"},
    "output_activations": null,
    "targets": ["Linear"],
    "weights": {"actorder": null, "block_structure": null, "dynamic": false, "group_size": null,
      "num_bits": 8, "observer": "minmax", "observer_kwargs": {}, "strategy": "channel",
      "symmetric": true, "type": "int"}}},
  "format": "int-quantized", "global_compression_ratio": 1.27, "ignore": ["lm_head"],
  "kv_cache_scheme": null, "quant_method": "compressed-tensors",
  "quantization_status": "compressed"})";

// Tensors of a file in the making.
class Writer {
 public:
  void Add(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape,
           const std::string& bytes) {
    header_[name] = {{"dtype", dtype},
                     {"shape", shape},
                     {"data_offsets", {data_.size(), data_.size() + bytes.size()}}};
    data_ += bytes;
  }
  void Write(const std::string& path) const {
    WriteBytes(path, Safetensors(header_.dump(), data_));
  }

 private:
  nlohmann::json header_;
  std::string data_;
};

template <class T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A golden model as int8, and the same numbers as float32.
class Int8Checkpoint : public ::testing::Test {
 protected:
  enum class Levels {
    kLibrary,  // -128 to 127, the largest at 127.5
    kOurs,     // as dtype int8 makes them: -127 to 127, the largest at 127; the output, too
  };

  void Make(const std::string& variant, Levels levels) {
    int8_.CopyModel(variant);
    floats_.CopyModel(variant);
    auto file = SafetensorsFile::Open(int8_.file("model.safetensors"));
    ASSERT_TRUE(file.ok()) << file.status();
    Writer integers;
    Writer floats;
    for (const auto& [name, view] : (*file)->tensors()) {
      const std::string bytes(static_cast<const char*>(view.data), view.bytes);
      ASSERT_EQ(view.dtype, "F32");
      const bool linear = name.find("layers.") != std::string::npos ||
                          (levels == Levels::kOurs && name.find("lm_head") == 0);
      if (!linear || view.shape.size() != 2) {
        integers.Add(name, view.dtype, view.shape, bytes);
        floats.Add(name, view.dtype, view.shape, bytes);
        continue;
      }
      std::vector<int8_t> rounded;
      std::vector<uint16_t> scales;
      std::vector<float> values;
      std::vector<float> row(view.shape[1]);
      for (int64_t i = 0; i < view.shape[0]; ++i) {
        std::memcpy(row.data(), bytes.data() + i * row.size() * 4, row.size() * 4);
        float largest = 0;
        for (float value : row) largest = std::max(largest, std::fabs(value));
        const bool ours = levels == Levels::kOurs;
        scales.push_back(cpu::ToBfloat16(largest / (ours ? 127.0f : 127.5f)));
        const float scale = cpu::FromBfloat16(scales.back());
        for (float value : row) {
          float level = std::clamp(std::nearbyint(value / scale), ours ? -127.0f : -128.0f, 127.0f);
          if (ours && std::fabs(value) == largest) level = std::copysign(127.0f, value);
          rounded.push_back(static_cast<int8_t>(level));
          values.push_back(static_cast<float>(rounded.back()) * scale);  // no -0
        }
      }
      integers.Add(name, "I8", view.shape, BytesOf(rounded));
      integers.Add(name + "_scale", "BF16", {view.shape[0], 1}, BytesOf(scales));
      floats.Add(name, "F32", view.shape, BytesOf(values));
    }
    integers.Write(int8_.file("model.safetensors"));
    floats.Write(floats_.file("model.safetensors"));
    int8_.EditJson("config.json", [](nlohmann::json& json) {
      json["quantization_config"] = nlohmann::json::parse(kScheme);
    });
  }

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
  TemporaryDirectory floats_{"floats"};
  TemporaryDirectory int8_{"int8"};
};

// Every weight is its integer times its scale, in one matrix with others or split from one, too.
TEST_F(Int8Checkpoint, WeightsAreTheFilesNumbers) {
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

// Integers and scales that dtype int8 finds again in the numbers: the same bits, in every product.
TEST_F(Int8Checkpoint, IsWhatDtypeInt8MakesOfTheSameNumbers) {
  Make("llama2", Levels::kOurs);
  const auto filed = LoadAs(int8_.path());
  const auto rounded = LoadAs(floats_.path(), Dtype::kInt8);
  const auto logits = AllLogits(*filed, text_, 5);
  const auto expected = AllLogits(*rounded, text_, 12);
  ASSERT_EQ(logits.size(), expected.size());
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_TRUE(SameBits(logits[i], expected[i])) << i;
}

// Integers and scales that are read from the file in each pass: the same bits.
TEST_F(Int8Checkpoint, WeightsThatStayInTheFileGiveTheSameBits) {
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
TEST_F(Int8Checkpoint, IsCloseToTheSameNumbersInFloatingPoint) {
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
  EXPECT_NE(filed->info().numerics_id, whole->info().numerics_id) << "the output is int8, too";
  EXPECT_FALSE(SameBits(AllLogits(*whole, text_, 12)[3], logits[3]));
}

TEST_F(Int8Checkpoint, OtherSchemesAreNamed) {
  Make("llama2", Levels::kLibrary);
  using Json = nlohmann::json;
  const auto group = [](Json& json) -> Json& { return json["config_groups"]["group_0"]; };
  struct Case {
    std::function<void(Json&)> change;
    const char* problem;
  };
  const Case cases[] = {
      {[](Json& j) { j["format"] = "pack-quantized"; },
       "quantization_config.format is \"pack-quantized\": served is \"int-quantized\""},
      {[&](Json& j) { group(j)["weights"]["strategy"] = "group"; },
       "config_groups.group_0.weights.strategy is \"group\": served is \"channel\""},
      {[&](Json& j) { group(j)["weights"]["group_size"] = 128; }, "weights.group_size is 128"},
      {[&](Json& j) { group(j)["weights"]["symmetric"] = false; }, "weights.symmetric is false"},
      {[&](Json& j) { group(j)["weights"]["num_bits"] = 4; }, "weights.num_bits is 4"},
      {[&](Json& j) { group(j)["weights"]["type"] = "float"; }, "weights.type is \"float\""},
      {[&](Json& j) { group(j)["weights"]["actorder"] = "group"; }, "weights.actorder is"},
      {[&](Json& j) { group(j)["weights"]["blocks"] = 3; }, "weights.blocks is 3: not known here"},
      {[&](Json& j) { group(j)["input_activations"]["dynamic"] = false; },
       "input_activations.dynamic is false: served is true"},
      {[&](Json& j) { group(j)["input_activations"]["strategy"] = "tensor"; },
       "input_activations.strategy is \"tensor\": served is \"token\""},
      {[&](Json& j) { group(j)["input_activations"] = nullptr; },
       "input_activations is null: it is needed"},
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
      {[](Json& j) { j.erase("config_groups"); }, "config_groups is missing: it is needed"},
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

TEST_F(Int8Checkpoint, TensorsThatDoNotFitAreNamed) {
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
