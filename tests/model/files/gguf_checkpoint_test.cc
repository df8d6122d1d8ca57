// The golden models as GGUF, converted as llama.cpp does, beside their directories.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/files/safetensors.h"
#include "model/load.h"
#include "nlohmann/json.hpp"
#include "tests/model/files.h"
#include "tests/model/support.h"
#include "tests/support/gguf_writer.h"

namespace tandem::model::testing {
namespace {

using ::tandem::testing::GgufWriter;
using ::testing::HasSubstr;

constexpr uint32_t kF32 = 0;

std::unique_ptr<LanguageModel> LoadFrom(const std::string& path) {
  LoadOptions options;
  options.directory = path;
  options.pool_tokens = 256;
  options.sampling_defaults = false;
  auto model = Load(options);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *std::move(model) : nullptr;
}

struct Numbers {
  std::vector<int64_t> shape;
  std::vector<float> values;
  int64_t row() const { return shape.size() == 1 ? 1 : shape[1]; }
};

// Row i of the result is row from(i).
template <class From>
Numbers Rows(const Numbers& in, From from) {
  Numbers out = in;
  for (int64_t i = 0; i < in.shape[0]; ++i) {
    std::copy_n(in.values.begin() + from(i) * in.row(), in.row(),
                out.values.begin() + i * in.row());
  }
  return out;
}

// For another way to rotate: the halves of a head one by one.
Numbers Permuted(const Numbers& in, int64_t heads) {
  const int64_t size = in.shape[0] / heads;
  return Rows(in, [&](int64_t i) { return i / size * size + i % 2 * (size / 2) + i % size / 2; });
}

Numbers Transposed(const Numbers& in) {
  Numbers out{{in.shape[1], in.shape[0]}, std::vector<float>(in.values.size())};
  for (int64_t i = 0; i < in.shape[0]; ++i) {
    for (int64_t j = 0; j < in.shape[1]; ++j) {
      out.values[j * in.shape[0] + i] = in.values[i * in.shape[1] + j];
    }
  }
  return out;
}

const std::map<std::string, std::string> kStems = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"transformer.wte", "token_embd"},
    {"transformer.wpe", "position_embd"},
    {"transformer.ln_f", "output_norm"},
    {"ln_1", "attn_norm"},
    {"attn.c_attn", "attn_qkv"},
    {"attn.c_proj", "attn_output"},
    {"ln_2", "ffn_norm"},
    {"mlp.c_fc", "ffn_up"},
    {"mlp.c_proj", "ffn_down"},
    {"gpt_neox.embed_in", "token_embd"},
    {"gpt_neox.final_layer_norm", "output_norm"},
    {"embed_out", "output"},
    {"attention.query_key_value", "attn_qkv"},
    {"attention.dense", "attn_output"},
    {"mlp.dense_h_to_4h", "ffn_up"},
    {"mlp.dense_4h_to_h", "ffn_down"},
};

struct Variant {
  const char* golden;
  const char* architecture;
};

class GgufModel {
 public:
  // Of the converter: rows of q and k in their own order; frequencies that are not divided.
  enum class Fault { kNone, kRowOrder, kFactors };

  explicit GgufModel(const Variant& variant, Fault fault = Fault::kNone)
      : variant_(variant), fault_(fault) {
    directory_.CopyModel(variant.golden);
    // What the goldens have and GGUF cannot say.
    directory_.EditJson("config.json", [&](nlohmann::json& json) {
      if (Is("granite"))
        json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
      if (Is("gemma3")) json["query_pre_attn_scalar"] = json["head_dim"];
      if (Is("gemma3")) json.erase("layer_types");
      if (Is("smollm3")) json.erase("no_rope_layers");
      if (json["model_type"] == "mistral") {
        json.erase("sliding_window");
        json["model_type"] = "llama";
        json["architectures"] = {"LlamaForCausalLM"};
      }
      if (Is("phi3")) json["rope_parameters"].erase("partial_rotary_factor");
      if (Is("phi3")) json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
      config_ = json;
    });
    WriteKeys();
    auto file = SafetensorsFile::Open(directory_.file("model.safetensors"));
    EXPECT_TRUE(file.ok()) << file.status();
    for (const auto& [name, view] : (*file)->tensors()) {
      if (view.dtype != "F32") continue;
      Numbers numbers{view.shape, std::vector<float>(view.bytes / 4)};
      std::memcpy(numbers.values.data(), view.data, view.bytes);
      Write(name, std::move(numbers));
    }
    path_ = directory_.file("model.gguf");
    WriteBytes(path_, writer_.Bytes());
  }

  const std::string& path() const { return path_; }
  const std::string& directory() const { return directory_.path(); }
  GgufWriter& writer() { return writer_; }
  bool has_factors() const { return has_factors_; }

 private:
  bool Is(const char* architecture) const {
    return variant_.architecture == std::string(architecture);
  }
  uint32_t Int(const char* name) const { return config_[name].get<uint32_t>(); }
  std::string Key(const char* key) const { return variant_.architecture + std::string(".") + key; }

  void WriteKeys() {
    writer_.Set("general.architecture", variant_.architecture);
    const bool gpt2 = Is("gpt2");
    const bool gpt = gpt2 || Is("gptneox");
    writer_.Set(Key("context_length"), Int(gpt2 ? "n_positions" : "max_position_embeddings"));
    writer_.Set(Key("embedding_length"), Int(gpt2 ? "n_embd" : "hidden_size"));
    writer_.Set(Key("feed_forward_length"), Int(gpt2 ? "n_inner" : "intermediate_size"));
    writer_.Set(Key("block_count"), Int(gpt2 ? "n_layer" : "num_hidden_layers"));
    writer_.Set(Key("attention.head_count"), Int(gpt2 ? "n_head" : "num_attention_heads"));
    if (gpt) {
      writer_.Set(Key("attention.layer_norm_epsilon"), 1e-5f);
      if (!gpt2)
        writer_.Set(Key("rope.dimension_count"),
                    Int("hidden_size") / Int("num_attention_heads") / 4);
      return;
    }
    writer_.Set(Key("attention.head_count_kv"), Int("num_key_value_heads"));
    writer_.Set(Key("attention.layer_norm_rms_epsilon"), config_["rms_norm_eps"].get<float>());
    if (config_.contains("head_dim")) writer_.Set(Key("attention.key_length"), Int("head_dim"));
    nlohmann::json rope = config_["rope_parameters"];
    if (Is("gemma3")) {
      writer_.Set(Key("attention.sliding_window"), Int("sliding_window"));
      rope = rope["full_attention"];
    }
    writer_.Set(Key("rope.freq_base"), rope["rope_theta"].get<float>());
    if (rope["rope_type"] == "linear") {
      writer_.Set(Key("rope.scaling.type"), "linear");
      writer_.Set(Key("rope.scaling.factor"), rope["factor"].get<float>());
    }
    if (rope["rope_type"] == "llama3") WriteFactors(rope);
    if (Is("granite")) {
      writer_.Set(Key("attention.scale"), config_["attention_multiplier"].get<float>());
      writer_.Set(Key("embedding_scale"), config_["embedding_multiplier"].get<float>());
      writer_.Set(Key("residual_scale"), config_["residual_multiplier"].get<float>());
      writer_.Set(Key("logit_scale"), config_["logits_scaling"].get<float>());
    }
  }

  // What the frequencies of Llama 3's rope are divided by, for llama.cpp has no such rope.
  void WriteFactors(const nlohmann::json& rope) {
    const double factor = rope["factor"], low = rope["low_freq_factor"],
                 high = rope["high_freq_factor"],
                 context = rope["original_max_position_embeddings"], theta = rope["rope_theta"];
    const int size = static_cast<int>(Int("head_dim"));
    has_factors_ = true;
    std::vector<float> factors;
    for (int i = 0; i < size; i += 2) {
      const double length = 2 * M_PI * std::pow(theta, static_cast<double>(i) / size);
      const double smooth = (context / length - low) / (high - low);
      double divided = 1 / ((1 - smooth) / factor + smooth);
      if (length < context / high) divided = 1;
      if (length > context / low) divided = fault_ == Fault::kFactors ? 1 : factor;
      factors.push_back(static_cast<float>(divided));
    }
    writer_.Add("rope_freqs.weight", kF32, {size / 2},
                {reinterpret_cast<const char*>(factors.data()), factors.size() * sizeof(float)});
  }

  void Write(const std::string& name, Numbers numbers) {
    const size_t dot = name.rfind('.');
    std::string stem = name.substr(0, dot);
    std::string before;
    for (const char* layers : {"model.layers.", "transformer.h.", "gpt_neox.layers."}) {
      if (stem.rfind(layers, 0) != 0) continue;
      stem = stem.substr(std::string(layers).size());
      before = "blk." + stem.substr(0, stem.find('.')) + ".";
      stem = stem.substr(stem.find('.') + 1);
    }
    const auto it = kStems.find(stem);
    if (it == kStems.end() && !Is("gemma3") && !Is("olmo2")) return;  // masks
    std::string ours = it == kStems.end() ? "" : it->second;
    const bool post_norms = Is("gemma3") || Is("olmo2");
    if (post_norms && stem == "post_attention_layernorm") ours = "post_attention_norm";
    if (stem == "post_feedforward_layernorm") ours = "post_ffw_norm";
    if (stem == "pre_feedforward_layernorm") ours = "ffn_norm";
    ASSERT_NE(ours, "") << name;
    const bool pairs = Is("llama") || Is("granite") || Is("smollm3");
    if (pairs && fault_ != Fault::kRowOrder && ours == "attn_q")
      numbers = Permuted(numbers, Int("num_attention_heads"));
    if (pairs && fault_ != Fault::kRowOrder && ours == "attn_k")
      numbers = Permuted(numbers, Int("num_key_value_heads"));
    if (Is("gemma3") && ours.find("norm") != std::string::npos) {
      for (float& value : numbers.values) value += 1;
    }
    if (Is("gpt2") && before != "" && numbers.shape.size() == 2) numbers = Transposed(numbers);
    if (Is("gptneox") && ours == "attn_qkv") {
      const int64_t heads = Int("num_attention_heads");
      const int64_t size = numbers.shape[0] / 3 / heads;
      numbers = Rows(numbers, [&](int64_t i) {
        const int64_t part = i / (heads * size), head = i / size % heads;
        return head * 3 * size + part * size + i % size;
      });
    }
    const std::string bytes(reinterpret_cast<const char*>(numbers.values.data()),
                            numbers.values.size() * 4);
    writer_.Add(before + ours + name.substr(dot), kF32, numbers.shape, bytes);
  }

  const Variant variant_;
  const Fault fault_;
  bool has_factors_ = false;
  TemporaryDirectory directory_;
  nlohmann::json config_;
  GgufWriter writer_;
  std::string path_;
};

const std::vector<uint32_t> kText = {1, 5, 9, 33, 2, 60, 11, 62, 12, 3, 3, 8};

double Deviation(const GgufModel& model) {
  // Of Llama 3's rope a GGUF has the numbers, but not its name.
  if (!model.has_factors()) {
    EXPECT_EQ(ReadConfig(model.path())->Canonical(), ReadConfig(model.directory())->Canonical());
  }
  const auto gguf = LoadFrom(model.path());
  const auto directory = LoadFrom(model.directory());
  if (gguf == nullptr || directory == nullptr) return INFINITY;
  const auto ours = AllLogits(*gguf, kText, 5);
  const auto theirs = AllLogits(*directory, kText, 5);
  double most = 0;
  for (size_t i = 0; i < ours.size(); ++i)
    most = std::max(most, RelativeDeviation(ours[i], theirs[i]));
  EXPECT_EQ(GreedyIds(*gguf, kText, 16) == GreedyIds(*directory, kText, 16), most < 1e-3);
  return most;
}

class GgufCheckpoint : public ::testing::TestWithParam<Variant> {};

TEST_P(GgufCheckpoint, GivesTheLogitsOfItsDirectory) {
  EXPECT_LT(Deviation(GgufModel(GetParam())), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Families, GgufCheckpoint,
                         ::testing::Values(Variant{"llama2", "llama"}, Variant{"tied", "llama"},
                                           Variant{"llama3", "llama"}, Variant{"mistral", "llama"},
                                           Variant{"biases", "llama"}, Variant{"qwen2", "qwen2"},
                                           Variant{"qwen3", "qwen3"}, Variant{"gemma3", "gemma3"},
                                           Variant{"phi3", "phi3"}, Variant{"olmo2", "olmo2"},
                                           Variant{"granite", "granite"},
                                           Variant{"smollm3", "smollm3"}, Variant{"gpt2", "gpt2"},
                                           Variant{"gpt_neox", "gptneox"}),
                         [](const auto& test) { return test.param.golden; });

TEST(GgufCheckpointControl, RowsInTheOtherOrderAreSeen) {
  EXPECT_GT(Deviation(GgufModel({"llama2", "llama"}, GgufModel::Fault::kRowOrder)), 1e-2);
}

TEST(GgufCheckpointControl, FrequenciesThatAreNotDividedAreSeen) {
  EXPECT_GT(Deviation(GgufModel({"llama3", "llama"}, GgufModel::Fault::kFactors)), 1e-2);
}

TEST(GgufCheckpointErrors, NameWhatIsWrong) {
  const auto error = [](GgufModel& model) {
    WriteBytes(model.path(), model.writer().Bytes());
    return std::string(Load({.directory = model.path(), .pool_tokens = 256}).status().message());
  };
  GgufModel more({"llama2", "llama"});
  more.writer().Add("blk.0.attn_sinks.weight", kF32, {4}, std::string(16, '\0'));
  EXPECT_THAT(error(more), HasSubstr("unexpected: blk.0.attn_sinks.weight [4]"));
  GgufModel quantised({"llama2", "llama"});
  quantised.writer().Add("output_norm.bias", /*type=*/8, {1, 32}, std::string(34, 'x'));
  EXPECT_THAT(error(quantised), HasSubstr("unexpected: model.norm.bias [1, 32]"));
}

}  // namespace
}  // namespace tandem::model::testing
