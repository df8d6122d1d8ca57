#include "model/config.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "model/json_fields.h"

namespace tandem::model {
namespace {

using base::JsonValue;

std::vector<uint32_t> ReadEos(const JsonValue& json, Fields& fields) {
  if (!fields.Has("eos_token_id")) return {};
  const JsonValue value = json["eos_token_id"];
  std::vector<uint32_t> tokens;
  for (const JsonValue& each : value.IsArray() ? value.Elements() : std::vector{value}) {
    const std::optional<int64_t> id = each.Integer();
    if (!id.has_value() || *id < 0 || *id > std::numeric_limits<int32_t>::max()) {
      fields.Problem("eos_token_id", "must be a token id or a list of them");
      return {};
    }
    tokens.push_back(static_cast<uint32_t>(*id));
  }
  return tokens;
}

// transformers 5 nests everything in rope_parameters; 4 has rope_theta beside rope_scaling.
RopeConfig ReadRope(const JsonValue& json, Fields& top, std::vector<std::string>& problems) {
  RopeConfig rope;
  rope.theta = top.Positive("rope_theta", false, rope.theta);
  const char* name = top.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!top.Has(name)) return rope;
  if (!json[name].IsObject()) {
    top.Problem(name, "must be an object");
    return rope;
  }
  Fields fields(json[name], absl::StrCat(name, "."), problems);
  rope.theta = fields.Positive("rope_theta", false, rope.theta);
  std::string type = fields.Text("rope_type", false, fields.Text("type", false, "default"));
  if (type == "default") return rope;
  if (type != "llama3") {
    fields.Problem(fields.Has("rope_type") ? "rope_type" : "type", "supported: default, llama3");
    return rope;
  }
  rope.type = RopeConfig::Type::kLlama3;
  rope.factor = fields.Positive("factor", true, 1.0);
  rope.low_freq_factor = fields.Positive("low_freq_factor", true, 1.0);
  rope.high_freq_factor = fields.Positive("high_freq_factor", true, 4.0);
  rope.original_context = fields.Int("original_max_position_embeddings", true, 1);
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    fields.Problem("high_freq_factor", "must be above low_freq_factor");
  }
  return rope;
}

void CheckShape(const LlamaConfig& config, Fields& fields) {
  if (config.heads % config.kv_heads != 0) {
    fields.Problem("num_key_value_heads",
                   absl::StrCat("must divide num_attention_heads (", config.heads, ")"));
  }
  if (!fields.Has("head_dim") && config.hidden_size % config.heads != 0) {
    fields.Problem("num_attention_heads",
                   absl::StrCat("must divide hidden_size (", config.hidden_size,
                                ") where head_dim is not given"));
  } else if (config.head_size % 2 != 0) {
    fields.Problem("head_dim",
                   absl::StrCat("the size of a head must be even, and is ", config.head_size));
  }
}

void CheckSupported(Fields& fields) {
  if (fields.Text("model_type", true, "llama") != "llama") {
    fields.Problem("model_type", "supported: llama");
  }
  if (fields.Text("hidden_act", false, "silu") != "silu") {
    fields.Problem("hidden_act", "supported: silu");
  }
  if (fields.Has("quantization_config")) {
    fields.Problem("quantization_config",
                   "quantised weights are not supported: give float32, "
                   "bfloat16 or float16 weights");
  }
  if (fields.Has("sliding_window")) fields.Problem("sliding_window", "supported: null");
}

LlamaConfig ReadFields(const JsonValue& json, std::vector<std::string>& problems) {
  Fields fields(json, "", problems);
  CheckSupported(fields);
  LlamaConfig config;
  config.vocabulary_size = fields.Int("vocab_size", true, 1);
  config.context_length = fields.Int("max_position_embeddings", true, 1);
  config.hidden_size = fields.Int("hidden_size", true, 2);
  config.feed_forward_size = fields.Int("intermediate_size", true, 1);
  config.layers = fields.Int("num_hidden_layers", true, 1, 4096);
  config.heads = fields.Int("num_attention_heads", true, 1, 4096);
  config.kv_heads = fields.Int("num_key_value_heads", false, config.heads, 4096);
  config.head_size = fields.Int("head_dim", false, config.hidden_size / config.heads, 4096);
  config.rms_norm_epsilon = fields.Positive("rms_norm_eps", false, 1e-6);
  config.tied_embeddings = fields.Bool("tie_word_embeddings", false);
  config.attention_bias = fields.Bool("attention_bias", false);
  config.mlp_bias = fields.Bool("mlp_bias", false);
  config.eos_token_ids = ReadEos(json, fields);
  config.rope = ReadRope(json, fields, problems);
  CheckShape(config, fields);
  return config;
}

}  // namespace

absl::StatusOr<LlamaConfig> ReadConfig(const std::string& directory) {
  std::filesystem::path folder(directory);
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return absl::NotFoundError(absl::StrCat("model directory ", directory,
                                            " does not exist; give a folder with config.json, ",
                                            "*.safetensors and tokenizer.json"));
  }
  TANDEM_ASSIGN_OR_RETURN(const JsonValue json, ReadJsonObject(folder / "config.json"));
  std::vector<std::string> problems;
  LlamaConfig config = ReadFields(json, problems);
  if (std::filesystem::exists(folder / "generation_config.json", ignored)) {
    TANDEM_ASSIGN_OR_RETURN(const JsonValue generation,
                            ReadJsonObject(folder / "generation_config.json"));
    Fields fields(generation, "generation_config.json: ", problems);
    std::vector<uint32_t> eos = ReadEos(generation, fields);
    if (!eos.empty()) config.eos_token_ids = eos;
  }
  for (uint32_t token : config.eos_token_ids) {
    if (token >= static_cast<uint32_t>(config.vocabulary_size)) {
      problems.push_back(absl::StrCat("eos_token_id ", token, " is not below vocab_size ",
                                      config.vocabulary_size));
    }
  }
  if (!problems.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat((folder / "config.json").string(), ": ", absl::StrJoin(problems, "; ")));
  }
  return config;
}

std::string LlamaConfig::Canonical() const {
  std::string text = absl::StrCat("llama vocabulary=", vocabulary_size, " context=", context_length,
                                  " hidden=", hidden_size, " ffn=", feed_forward_size);
  absl::StrAppend(&text, " layers=", layers, " heads=", heads, " kv=", kv_heads,
                  " head=", head_size, " epsilon=", rms_norm_epsilon);
  absl::StrAppend(&text, " tied=", tied_embeddings, " attention_bias=", attention_bias,
                  " mlp_bias=", mlp_bias, " theta=", rope.theta);
  if (rope.type == RopeConfig::Type::kLlama3) {
    absl::StrAppend(&text, " llama3=", rope.factor, "/", rope.low_freq_factor, "/",
                    rope.high_freq_factor, "/", rope.original_context);
  }
  return text;
}

std::vector<float> RopeFrequencies(const RopeConfig& rope, int head_size) {
  const double pi = 3.14159265358979323846;
  std::vector<float> frequencies(head_size / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    double frequency = 1.0 / std::pow(rope.theta, 2.0 * static_cast<double>(i) / head_size);
    if (rope.type == RopeConfig::Type::kLlama3) {
      const double wavelength = 2 * pi / frequency;
      const double turns = rope.original_context / wavelength;
      if (turns < rope.low_freq_factor) {
        frequency /= rope.factor;
      } else if (turns <= rope.high_freq_factor) {
        double smooth =
            (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
        frequency = (1 - smooth) * frequency / rope.factor + smooth * frequency;
      }
    }
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

}  // namespace tandem::model
