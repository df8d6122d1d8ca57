// Checkpoints of 4-bit integers in groups, as compressed-tensors, GPTQ and AWQ pack them, beside
// the same numbers as float32. What is written here follows the formats' own rules, from whole
// numbers on; what is read is compared by bits.
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/cpu/half.h"
#include "model/decoder_weights.h"
#include "model/model_files.h"
#include "model/output_distances.h"
#include "model/pruned_output.h"
#include "tests/model/files.h"
#include "tests/model/int8_checkpoint.h"
#include "tests/model/support.h"

namespace tandem::model::testing {
namespace packed_checkpoint_test {
namespace {

using ::testing::HasSubstr;

constexpr int kHidden = 128, kInner = 256, kVocabulary = 64;

struct Variant {
  const char* name;
  PackedFormat format;
  int group;
  bool symmetric;
  const char* scales;            // BF16 or F16
  const char* model = "llama2";  // a golden, for config.json

  bool by_output() const { return format == PackedFormat::kPackQuantized; }
};

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

// What is planted.
enum class Fault { kNone, kZeroPoint, kOrder, kGroups, kLargestZero, kBias };

// Words of eight integers: nibble(row, column, i) is the one of place i.
std::string Words(int64_t rows, int64_t columns,
                  const std::function<int(int64_t, int64_t, int)>& nibble) {
  std::vector<uint32_t> words(rows * columns);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      for (int i = 0; i < 8; ++i) {
        words[row * columns + column] |= static_cast<uint32_t>(nibble(row, column, i)) << (4 * i);
      }
    }
  }
  return BytesOf(words);
}

// A model with random weights.
class PackedModel {
 public:
  explicit PackedModel(const Variant& variant, Fault fault = Fault::kNone)
      : variant_(variant), fault_(fault) {
    for (TemporaryDirectory* directory : {&packed_, &floats_}) {
      directory->CopyModel(variant.model);
      directory->EditJson("config.json", [](nlohmann::json& json) {
        json["hidden_size"] = kHidden;
        json["intermediate_size"] = kInner;
        json["num_hidden_layers"] = 1;
        json["num_attention_heads"] = 4;
        json["num_key_value_heads"] = 2;
        json["vocab_size"] = kVocabulary;
        json["head_dim"] = kHidden / 4;
        json["tie_word_embeddings"] = false;
        json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
      });
    }
    packed_.EditJson("config.json", [this](nlohmann::json& json) {
      json["quantization_config"] = nlohmann::json::parse(Scheme());
    });
    Plain("model.embed_tokens", {kVocabulary, kHidden});
    Plain("model.norm", {kHidden});
    const std::string layer = "model.layers.0.";
    Plain(layer + "input_layernorm", {kHidden});
    Plain(layer + "post_attention_layernorm", {kHidden});
    if (variant.model == std::string("phi3")) {
      Matrix(layer + "self_attn.qkv_proj", 2 * kHidden, kHidden);
      Matrix(layer + "mlp.gate_up_proj", 2 * kInner, kHidden);
    } else {
      Matrix(layer + "self_attn.q_proj", kHidden, kHidden);
      Matrix(layer + "self_attn.k_proj", kHidden / 2, kHidden);
      Matrix(layer + "self_attn.v_proj", kHidden / 2, kHidden);
      Matrix(layer + "mlp.gate_proj", kInner, kHidden);
      Matrix(layer + "mlp.up_proj", kInner, kHidden);
    }
    Matrix(layer + "self_attn.o_proj", kHidden, kHidden);
    Matrix(layer + "mlp.down_proj", kHidden, kInner);
    Matrix("lm_head", kVocabulary, kHidden);
    packed_tensors_.Write(packed_.file("model.safetensors"));
    float_tensors_.Write(floats_.file("model.safetensors"));
  }

  const std::string& packed() const { return packed_.path(); }
  const std::string& floats() const { return floats_.path(); }

  // What loading says after a change of quantization_config.
  std::string Error(const std::function<void(nlohmann::json&)>& change = nullptr,
                    LoadOptions options = {}) const {
    const std::string before = ReadBytes(packed_.file("config.json"));
    if (change) {
      packed_.EditJson("config.json",
                       [&](nlohmann::json& json) { change(json["quantization_config"]); });
    }
    options.directory = packed_.path();
    options.pool_tokens = 256;
    const absl::Status status = Load(options).status();
    WriteBytes(packed_.file("config.json"), before);
    return std::string(status.message());
  }

 private:
  // As the tools write it.
  std::string Scheme() const {
    const std::string group = std::to_string(variant_.group);
    const std::string symmetric = variant_.symmetric ? "true" : "false";
    switch (variant_.format) {
      case PackedFormat::kPackQuantized:
        return R"({"config_groups": {"group_0": {"input_activations": null,
          "output_activations": null, "targets": ["Linear"], "weights": {"actorder": null,
          "block_structure": null, "dynamic": false, "group_size": )" +
               group + R"(, "num_bits": 4, "observer": "minmax", "observer_kwargs": {},
          "strategy": "group", "symmetric": )" +
               symmetric + R"(, "type": "int"}}}, "format": "pack-quantized", "ignore": [],
          "global_compression_ratio": null, "kv_cache_scheme": null,
          "quant_method": "compressed-tensors", "quantization_status": "compressed"})";
      case PackedFormat::kAwq:
        return R"({"bits": 4, "group_size": )" + group +
               R"(, "modules_to_not_convert": null, "quant_method": "awq", "version": "gemm",
          "zero_point": )" +
               (variant_.symmetric ? "false" : "true") + "}";
      default:
        return R"({"bits": 4, "damp_percent": 0.1, "desc_act": false, "group_size": )" + group +
               R"(, "model_name_or_path": null, "quant_method": "gptq", "static_groups": false,
          "true_sequential": true, "checkpoint_format": ")" +
               (variant_.format == PackedFormat::kGptqV2 ? "gptq_v2" : "gptq") + R"(", "sym": )" +
               symmetric + "}";
    }
  }

  void Plain(const std::string& stem, const std::vector<int64_t>& shape) {
    std::vector<float> values(shape.size() == 1 ? shape[0] : shape[0] * shape[1]);
    for (float& value : values) value = std::normal_distribution<float>(0.0f, 0.5f)(random_);
    for (SafetensorsWriter* tensors : {&packed_tensors_, &float_tensors_}) {
      tensors->Add(stem + ".weight", "F32", shape, BytesOf(values));
    }
  }

  void Matrix(const std::string& stem, int64_t out, int64_t in) {
    const int64_t groups = in / variant_.group;
    const bool v1 = variant_.format == PackedFormat::kGptq;
    std::vector<std::vector<int>> q(out, std::vector<int>(in)), z(out, std::vector<int>(groups, 8));
    for (auto& row : q) {
      for (int& integer : row) integer = static_cast<int>(random_() % 16);
    }
    for (auto& row : z) {
      for (int& zero : row) {
        if (!variant_.symmetric) zero = static_cast<int>(random_() % 15) + (v1 ? 1 : 0);
      }
    }
    // [out, groups], as the file has them.
    const bool f16 = variant_.scales == std::string("F16");
    std::vector<uint16_t> scales(out * groups);
    for (uint16_t& scale : scales) {
      const float value = std::uniform_real_distribution<float>(0.002f, 0.02f)(random_);
      scale = f16 ? cpu::ToFloat16(value) : cpu::ToBfloat16(value);
    }
    std::vector<float> values(out * in);
    for (int64_t row = 0; row < out; ++row) {
      for (int64_t i = 0; i < in; ++i) {
        const int64_t group = i / variant_.group;
        const uint16_t half = scales[row * groups + group];
        values[row * in + i] = static_cast<float>(q[row][i] - z[row][group]) *
                               (f16 ? cpu::FromFloat16(half) : cpu::FromBfloat16(half));
      }
    }
    float_tensors_.Add(stem + ".weight", "F32", {out, in}, BytesOf(values));
    int& some = z[out / 2][groups - 1];
    if (fault_ == Fault::kZeroPoint) some = some == 8 ? 9 : 8;
    if (fault_ == Fault::kLargestZero) z[out / 2][0] = 16;
    if (variant_.by_output()) {
      WritePackQuantized(stem, q, z, scales);
    } else {
      WriteByInput(stem, q, z, scales);
    }
  }

  using Integers = std::vector<std::vector<int>>;

  void WritePackQuantized(const std::string& stem, const Integers& q, const Integers& z,
                          const std::vector<uint16_t>& scales) {
    const int64_t out = q.size(), in = q[0].size(), groups = z[0].size();
    const bool swapped = fault_ == Fault::kOrder;
    packed_tensors_.Add(stem + ".weight_packed", "I32", {out, in / 8},
                        Words(out, in / 8, [&](int64_t row, int64_t word, int i) {
                          return q[row][word * 8 + (swapped ? 7 - i : i)];
                        }));
    packed_tensors_.Add(stem + ".weight_scale", variant_.scales, {out, groups}, BytesOf(scales));
    packed_tensors_.Add(stem + ".weight_shape", "I64", {2}, BytesOf(std::vector<int64_t>{out, in}));
    if (variant_.symmetric && fault_ == Fault::kNone) return;
    packed_tensors_.Add(stem + ".weight_zero_point", "I32", {out / 8, groups},
                        Words(out / 8, groups, [&](int64_t word, int64_t group, int i) {
                          return z[word * 8 + i][group];
                        }));
  }

  void WriteByInput(const std::string& stem, const Integers& q, const Integers& z,
                    const std::vector<uint16_t>& scales) {
    const int64_t out = q.size(), in = q[0].size(), groups = z[0].size();
    const bool awq = variant_.format == PackedFormat::kAwq;
    const int less = variant_.format == PackedFormat::kGptq ? 1 : 0;
    // Which of eight outputs has which place in a word.
    const std::vector<int> order = awq != (fault_ == Fault::kOrder)
                                       ? std::vector<int>{0, 2, 4, 6, 1, 3, 5, 7}
                                       : std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7};
    if (awq) {
      packed_tensors_.Add(stem + ".qweight", "I32", {in, out / 8},
                          Words(in, out / 8, [&](int64_t input, int64_t word, int i) {
                            return q[word * 8 + order[i]][input];
                          }));
    } else {
      packed_tensors_.Add(stem + ".qweight", "I32", {in / 8, out},
                          Words(in / 8, out, [&](int64_t word, int64_t output, int i) {
                            return q[output][word * 8 + order[i]];
                          }));
      std::vector<int32_t> of_input(in);
      for (int64_t i = 0; i < in; ++i) of_input[i] = static_cast<int32_t>(i / variant_.group);
      if (fault_ == Fault::kGroups) std::swap(of_input[3], of_input[in - 1]);
      packed_tensors_.Add(stem + ".g_idx", "I32", {in}, BytesOf(of_input));
      if (fault_ == Fault::kBias || variant_.symmetric) {
        std::vector<uint16_t> bias(out);
        bias[1] = fault_ == Fault::kBias ? 1 : 0;
        packed_tensors_.Add(stem + ".bias", "F16", {out}, BytesOf(bias));
      }
    }
    packed_tensors_.Add(stem + ".qzeros", "I32", {groups, out / 8},
                        Words(groups, out / 8, [&](int64_t group, int64_t word, int i) {
                          return z[word * 8 + (awq ? order[i] : i)][group] - less;
                        }));
    std::vector<uint16_t> by_group(scales.size());
    for (int64_t row = 0; row < out; ++row) {
      for (int64_t group = 0; group < groups; ++group) {
        by_group[group * out + row] = scales[row * groups + group];
      }
    }
    packed_tensors_.Add(stem + ".scales", variant_.scales, {groups, out}, BytesOf(by_group));
  }

  const Variant variant_;
  const Fault fault_;
  std::mt19937 random_{7};
  TemporaryDirectory packed_{"packed"}, floats_{"floats"};
  SafetensorsWriter packed_tensors_, float_tensors_;
};

DecoderWeights WeightsOf(const std::string& directory) {
  const auto config = *ReadConfig(directory);
  const auto checkpoint = *Checkpoint::Open(directory);
  const auto tensors = FindTensors(config.spec, config.family->tensors, checkpoint, config.packed);
  EXPECT_TRUE(tensors.ok()) << tensors.status();
  return DecoderWeights(config.spec, *tensors, Dtype::kAuto, nullptr);
}

// Weights whose bits differ.
int Differences(const PackedModel& model) {
  const DecoderWeights packed = WeightsOf(model.packed()), floats = WeightsOf(model.floats());
  EXPECT_TRUE(packed.exact());
  std::vector<std::pair<const PackedLinear*, const PackedLinear*>> pairs = {
      {&packed.output(), &floats.output()}};
  for (size_t i = 0; i < floats.layers().size(); ++i) {
    const DecoderLayer &left = packed.layers()[i], &right = floats.layers()[i];
    pairs.insert(pairs.end(), {{&left.qkv, &right.qkv},
                               {&left.o, &right.o},
                               {&left.gate_up, &right.gate_up},
                               {&left.down, &right.down}});
  }
  int count = 0;
  for (const auto& [a, b] : pairs) {
    EXPECT_EQ(a->matrix.type(), cpu::WeightType::kInt8Grouped) << "held as they are";
    std::vector<float> one(b->matrix.k()), two(b->matrix.k());
    for (int column = 0; column < b->matrix.columns(); ++column) {
      a->matrix.ReadColumn(column, one.data());
      b->matrix.ReadColumn(column, two.data());
      // A weight of 0 has a sign in one of the two.
      for (size_t i = 0; i < one.size(); ++i) count += one[i] != two[i];
    }
  }
  return count;
}

std::unique_ptr<LanguageModel> LoadAs(const std::string& directory, Dtype dtype) {
  auto model = Load({.directory = directory, .pool_tokens = 256, .dtype = dtype});
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

constexpr Variant kVariants[] = {
    {"PackSymmetric", PackedFormat::kPackQuantized, 128, true, "BF16"},
    {"PackSymmetricF16", PackedFormat::kPackQuantized, 32, true, "F16"},
    {"PackZeroPoints", PackedFormat::kPackQuantized, 64, false, "BF16"},
    {"PackFused", PackedFormat::kPackQuantized, 32, false, "F16", "phi3"},
    {"GptqSymmetric", PackedFormat::kGptq, 128, true, "F16"},
    {"GptqZeroPoints", PackedFormat::kGptq, 32, false, "F16"},
    {"GptqSecond", PackedFormat::kGptqV2, 64, false, "F16"},
    {"GptqFused", PackedFormat::kGptq, 128, true, "BF16", "phi3"},
    {"Awq", PackedFormat::kAwq, 128, false, "F16"},
    {"AwqSmallGroups", PackedFormat::kAwq, 32, false, "F16"},
    {"AwqSymmetric", PackedFormat::kAwq, 64, true, "F16"},
};

class PackedCheckpoint : public ::testing::TestWithParam<Variant> {};

INSTANTIATE_TEST_SUITE_P(Formats, PackedCheckpoint, ::testing::ValuesIn(kVariants),
                         [](const auto& test) { return test.param.name; });

// A wrong zero point, and words in another order, are seen.
TEST_P(PackedCheckpoint, WeightsAreTheFilesNumbers) {
  EXPECT_EQ(Differences(PackedModel(GetParam())), 0);
  // One group of each matrix.
  const int matrices = GetParam().model == std::string("phi3") ? 5 : 8;
  EXPECT_EQ(Differences(PackedModel(GetParam(), Fault::kZeroPoint)), matrices * GetParam().group);
  EXPECT_GT(Differences(PackedModel(GetParam(), Fault::kOrder)), 10000);
}

TEST(PackedCheckpointLogits, AreThoseOfTheSameNumbers) {
  const std::vector<uint32_t> text = {1, 5, 9, 33, 2, 60, 11, 62, 12, 3};
  for (const int i : {2, 4, 8}) {
    SCOPED_TRACE(kVariants[i].name);
    const PackedModel model(kVariants[i]);
    const auto floats = LoadAs(model.floats(), Dtype::kAuto);
    const auto expected = AllLogits(*floats, text, 5);
    EXPECT_EQ(AllLogits(*LoadAs(model.packed(), Dtype::kFloat32), text, 5), expected);
    // Activations are rounded.
    const auto packed = LoadAs(model.packed(), Dtype::kAuto);
    const auto logits = AllLogits(*packed, text, 5);
    for (size_t row = 0; row < logits.size(); ++row) {
      EXPECT_LT(RelativeDeviation(logits[row], expected[row]), 0.1) << row;
    }
    EXPECT_NE(packed->info().model_id, floats->info().model_id);
  }
}

TEST(PackedCheckpointOutput, IsReadForDistances) {
  const PackedModel model({"", PackedFormat::kAwq, 64, false, "F16"});
  const auto distances = [](const std::string& directory) {
    const auto any = [](const ModelConfig&) { return absl::OkStatus(); };
    return OutputDistances(*ReadModelFiles(directory, /*sampling_defaults=*/false, any));
  };
  EXPECT_EQ(distances(model.packed()), distances(model.floats()));
}

// Words that lie in the file alike, and mean other weights.
TEST(PackedCheckpointId, SaysWhichVersionOfGptqItIs) {
  const PackedModel model({"", PackedFormat::kGptqV2, 64, false, "F16"});
  const std::string second = LoadAs(model.packed(), Dtype::kAuto)->info().model_id;
  const std::string file = model.packed() + "/config.json";
  std::string json = ReadBytes(file);
  json.replace(json.find("gptq_v2"), 7, "gptq");
  WriteBytes(file, json);
  EXPECT_NE(LoadAs(model.packed(), Dtype::kAuto)->info().model_id, second);
}

TEST(PackedCheckpointErrors, NameWhatIsNotServed) {
  constexpr Variant kGptq = {"", PackedFormat::kGptq, 64, false, "F16"};
  constexpr Variant kPack = {"", PackedFormat::kPackQuantized, 64, false, "BF16"};
  constexpr Variant kAwq = {"", PackedFormat::kAwq, 64, false, "F16"};
  EXPECT_THAT(PackedModel(kGptq, Fault::kGroups).Error(),
              HasSubstr("model.layers.0.self_attn.q_proj.g_idx puts input 3 into group 1; "
                        "supported: groups of inputs that are beside each other"));
  EXPECT_THAT(PackedModel(kGptq, Fault::kLargestZero).Error(),
              HasSubstr("q_proj.qzeros has a zero point of 15"));
  EXPECT_THAT(
      PackedModel(kGptq, Fault::kBias).Error(),
      HasSubstr("8 unexpected: lm_head.bias [64], model.layers.0.mlp.down_proj.bias [128]"));
  const PackedModel gptq(kGptq);
  EXPECT_THAT(gptq.Error([](auto& json) { json["bits"] = 8; }),
              HasSubstr("quantization_config.bits is 8: served is 4"));
  EXPECT_THAT(gptq.Error([](auto& json) { json["group_size"] = -1; }),
              HasSubstr("quantization_config.group_size is -1: served is 32 or 64 or 128"));
  EXPECT_THAT(gptq.Error([](auto& json) { json["group_size"] = 32; }),
              HasSubstr("q_proj.qzeros is I32 [2, 16], quantization_config and config.json make it "
                        "I32 [4, 16]"));
  EXPECT_THAT(gptq.Error([](auto& json) { json["rotation"] = "hadamard"; }),
              HasSubstr("quantization_config.rotation is \"hadamard\""));
  EXPECT_THAT(gptq.Error([](auto& json) { json["new_arithmetic"] = 1; }),
              HasSubstr("quantization_config.new_arithmetic is 1: unknown here"));
  EXPECT_THAT(PackedModel(kAwq).Error([](auto& json) { json["version"] = "gemv"; }),
              HasSubstr("quantization_config.version is \"gemv\": served is \"gemm\""));
  const PackedModel pack(kPack);
  EXPECT_THAT(
      pack.Error([](auto& json) { json["config_groups"]["group_0"]["weights"]["num_bits"] = 8; }),
      HasSubstr("config_groups.group_0.weights.num_bits is 8: served is 4"));
  EXPECT_THAT(pack.Error([](auto& json) {
    json["config_groups"]["group_0"]["input_activations"] = {{"num_bits", 8}};
  }),
              HasSubstr("group_0.input_activations is"));
  EXPECT_THAT(pack.Error([](auto& json) { json["config_groups"] = nlohmann::json::object(); }),
              HasSubstr("config_groups is {}: it must have a group"));
  const PackedModel symmetric({"", PackedFormat::kPackQuantized, 64, true, "BF16"});
  EXPECT_THAT(symmetric.Error([](auto& json) {
    json["config_groups"]["group_0"]["weights"]["symmetric"] = false;
  }),
              HasSubstr("q_proj.weight_zero_point [16, 2]"));
  EXPECT_THAT(symmetric.Error([](auto& json) {
    json["config_groups"]["group_1"] = json["config_groups"]["group_0"];
    json["config_groups"]["group_1"]["weights"]["group_size"] = 32;
  }),
              HasSubstr("served is one scheme for all modules"));
  const std::vector<uint32_t> tokens = {1, 2};
  EXPECT_THAT(
      std::string(WritePruned(pack.packed(), tokens, pack.floats() + "/out", nullptr).message()),
      HasSubstr("packed in four bits"));
  EXPECT_THAT(pack.Error([](auto& json) { json["quant_method"] = "quip"; }),
              HasSubstr("quantization_config in config.json: quip"));
}

}  // namespace
}  // namespace packed_checkpoint_test
}  // namespace tandem::model::testing
