#include "common/gguf/config_json.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/base/json.h"

namespace tandem::gguf {
namespace {

using base::JsonObject;
using base::JsonText;

struct Architecture {
  const char* gguf;
  const char* transformers;
  const char* model_type;
};
constexpr Architecture kArchitectures[] = {
    {"llama", "LlamaForCausalLM", "llama"},       {"qwen2", "Qwen2ForCausalLM", "qwen2"},
    {"qwen3", "Qwen3ForCausalLM", "qwen3"},       {"gemma3", "Gemma3ForCausalLM", "gemma3_text"},
    {"phi3", "Phi3ForCausalLM", "phi3"},          {"olmo2", "Olmo2ForCausalLM", "olmo2"},
    {"granite", "GraniteForCausalLM", "granite"}, {"smollm3", "SmolLM3ForCausalLM", "smollm3"},
    {"gpt2", "GPT2LMHeadModel", "gpt2"},          {"gptneox", "GPTNeoXForCausalLM", "gpt_neox"},
};

// GGUF has most numbers in 32 bits: 1e-5 there is 9.99999975e-6 in 64. The shortest decimal that is
// the same in 32 bits is what the model was published with.
JsonText Decimal(double number) {
  const auto narrow = static_cast<float>(number);
  if (static_cast<double>(narrow) != number) return number;
  char digits[32];
  const auto end = std::to_chars(digits, std::end(digits), narrow);
  double shortest = 0;
  std::from_chars(digits, end.ptr, shortest);
  return shortest;
}

class Config {
 public:
  Config(const File& file, const Architecture& architecture)
      : file_(file), architecture_(architecture) {
    json_.Set("architectures", std::vector<JsonText>{architecture.transformers});
    json_.Set("model_type", architecture.model_type);
  }

  // `key` without the architecture's name before it.
  void Integer(const char* key, const char* name, bool required = false) {
    const std::optional<int64_t> value = file_.Integer(Key(key));
    if (value.has_value()) return json_.Set(name, *value);
    Missing(key, required, "a whole number");
  }
  void Number(const char* key, const char* name, bool required = false) {
    const std::optional<double> value = file_.Number(Key(key));
    if (value.has_value()) return json_.Set(name, Decimal(*value));
    Missing(key, required, "a number");
  }
  void Set(const char* name, JsonText value) { json_.Set(name, std::move(value)); }
  void Problem(std::string problem) { problems_.push_back(std::move(problem)); }

  std::string Key(absl::string_view key) const {
    return absl::StrCat(architecture_.gguf, ".", key);
  }

  absl::StatusOr<std::string> Done() const {
    if (problems_.empty()) return json_.text();
    return absl::InvalidArgumentError(absl::StrJoin(problems_, "; "));
  }

 private:
  void Missing(const char* key, bool required, const char* kind) {
    if (file_.Has(Key(key))) {
      problems_.push_back(absl::StrCat("key ", Key(key), " is not ", kind));
    } else if (required) {
      problems_.push_back(absl::StrCat("key ", Key(key), " is missing"));
    }
  }

  const File& file_;
  const Architecture& architecture_;
  JsonObject json_;
  std::vector<std::string> problems_;
};

std::optional<int64_t> Rows(const File& file, const char* tensor) {
  const auto it = file.tensors().find(tensor);
  return it == file.tensors().end() ? std::nullopt : std::optional(it->second.shape.front());
}

constexpr size_t kMaxFactors = 4096;  // the largest head has twice as many elements, at most

// F32, one a pair of elements of a head.
std::vector<JsonText> Factors(const File& file, const char* tensor, Config& config) {
  std::vector<JsonText> factors;
  const auto it = file.tensors().find(tensor);
  if (it == file.tensors().end()) return factors;
  const size_t size = it->second.bytes / sizeof(float);
  if (it->second.type != "F32" || size > kMaxFactors) {
    config.Problem(absl::StrCat("tensor ", tensor, " is ", it->second.type, " of ",
                                it->second.bytes, " bytes; supported: F32, at most ", kMaxFactors,
                                " values"));
    return factors;
  }
  const auto* values = static_cast<const char*>(it->second.data);
  for (size_t i = 0; i < size; ++i) {
    float value;
    __builtin_memcpy(&value, values + i * sizeof(float), sizeof(float));
    factors.push_back(Decimal(value));
  }
  return factors;
}

// What yarn's keys change of its scaling; they do nothing beside another rope. The rule is that of
// llama.cpp: cosines and sines are multiplied by the attention factor and by 1 + ln(factor) / 10.
void SetYarn(const File& file, double factor, Config& config, JsonObject& scaling) {
  for (const auto& [key, name] : {std::pair("rope.scaling.yarn_beta_fast", "beta_fast"),
                                  std::pair("rope.scaling.yarn_beta_slow", "beta_slow")}) {
    if (const auto value = file.Number(config.Key(key))) scaling.Set(name, Decimal(*value));
  }
  double attention = 1;
  for (const char* key : {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"}) {
    attention *= file.Number(config.Key(key)).value_or(1);
  }
  if (attention != 1) {
    scaling.Set("attention_factor", attention * (factor > 1 ? 1 + 0.1 * std::log(factor) : 1));
  }
  // How much of the ramp there is; below 0 the file leaves it open, and it is 1.
  const double ramp = file.Number(config.Key("rope.scaling.yarn_ext_factor")).value_or(1);
  if (ramp != 1 && !(ramp < 0)) {
    config.Problem(absl::StrCat("key ", config.Key("rope.scaling.yarn_ext_factor"), " is ", ramp,
                                "; supported: 1"));
  }
  const double log = file.Number(config.Key("rope.scaling.yarn_log_multiplier")).value_or(0);
  if (log != 0) {
    config.Problem(absl::StrCat("key ", config.Key("rope.scaling.yarn_log_multiplier"), " is ", log,
                                "; supported: 0"));
  }
}

void SetRope(const File& file, Config& config) {
  // llama.cpp's defaults: a factor without a type is one of a linear rope.
  if (!file.Has(config.Key("rope.freq_base"))) config.Set("rope_theta", 10000);
  config.Number("rope.freq_base", "rope_theta");
  const std::string type(file.String(config.Key("rope.scaling.type")).value_or("linear"));
  const double factor = file.Number(config.Key("rope.scaling.factor"))
                            .value_or(file.Number(config.Key("rope.scale_linear")).value_or(1));
  const std::optional<int64_t> original =
      file.Integer(config.Key("rope.scaling.original_context_length"));
  const std::vector<JsonText> divisors = Factors(file, "rope_freqs.weight", config);
  const std::vector<JsonText> near = Factors(file, "rope_factors_short.weight", config);
  if (!divisors.empty() || !near.empty()) {
    if (factor != 1 && type != "none") {
      config.Problem(absl::StrCat("key ", config.Key("rope.scaling.factor"), " is ", factor,
                                  " beside a tensor of factors; supported: 1"));
    }
  }
  if (!divisors.empty()) {
    // What the ropes of Llama 3 divide frequencies by.
    config.Set("rope_scaling", JsonObject({{"rope_type", "longrope"},
                                           {"short_factor", divisors},
                                           {"long_factor", divisors},
                                           {"attention_factor", 1.0},
                                           {"original_max_position_embeddings", 1}}));
  } else if (!near.empty()) {
    JsonObject scaling({{"rope_type", "longrope"},
                        {"short_factor", near},
                        {"long_factor", Factors(file, "rope_factors_long.weight", config)},
                        {"original_max_position_embeddings", original.value_or(0)}});
    if (const auto attention = file.Number(config.Key("rope.scaling.attn_factor"))) {
      scaling.Set("attention_factor", Decimal(*attention));
    }
    config.Set("rope_scaling", scaling);
  } else if (type == "linear") {
    if (factor == 1 || factor == 0) return;
    config.Set("rope_scaling", JsonObject({{"rope_type", "linear"}, {"factor", Decimal(factor)}}));
  } else if (type == "yarn") {
    JsonObject scaling({{"rope_type", "yarn"}, {"factor", Decimal(factor)}});
    if (original.has_value()) scaling.Set("original_max_position_embeddings", *original);
    SetYarn(file, factor, config, scaling);
    config.Set("rope_scaling", scaling);
  } else if (type != "none") {
    config.Problem(absl::StrCat("key ", config.Key("rope.scaling.type"), " is ",
                                base::Excerpt(type), "; supported: none, linear, yarn"));
  }
}

// Heads of queries, keys and values have one size here, and all of it rotates but where a family
// says otherwise.
void CheckHeads(const File& file, absl::string_view type, Config& config) {
  const auto heads = file.Integer(config.Key("attention.head_count"));
  const auto width = file.Integer(config.Key("embedding_length"));
  const int64_t usual = heads.value_or(0) > 0 ? width.value_or(0) / *heads : 0;
  const auto key = file.Integer(config.Key("attention.key_length"));
  const int64_t size = key.value_or(usual);
  const auto check = [&](const char* name, int64_t supported) {
    const auto value = file.Integer(config.Key(name));
    if (!value.has_value() || *value == supported) return;
    config.Problem(
        absl::StrCat("key ", config.Key(name), " is ", *value, "; supported: ", supported));
  };
  check("attention.value_length", size);
  if (type == "phi3" || type == "gpt2" || type == "gpt_neox") {
    check("attention.key_length", usual);
  } else {
    check("rope.dimension_count", size);
  }
}

void SetGpt(const File& file, const Architecture& architecture, Config& config) {
  if (architecture.model_type == absl::string_view("gpt2")) {
    config.Set("vocab_size", Rows(file, "token_embd.weight").value_or(0));
    config.Integer("context_length", "n_positions", true);
    config.Integer("embedding_length", "n_embd", true);
    config.Integer("block_count", "n_layer", true);
    config.Integer("attention.head_count", "n_head", true);
    config.Integer("feed_forward_length", "n_inner");
    config.Number("attention.layer_norm_epsilon", "layer_norm_epsilon");
    return;
  }
  config.Integer("context_length", "max_position_embeddings", true);
  config.Integer("embedding_length", "hidden_size", true);
  config.Integer("block_count", "num_hidden_layers", true);
  config.Integer("attention.head_count", "num_attention_heads", true);
  config.Integer("feed_forward_length", "intermediate_size", true);
  config.Number("attention.layer_norm_epsilon", "layer_norm_eps");
  config.Number("rope.freq_base", "rope_theta");
  const auto rotated = file.Number("gptneox.rope.dimension_count");
  const auto width = file.Number("gptneox.embedding_length");
  const auto heads = file.Number("gptneox.attention.head_count");
  if (rotated && width && heads && *width > 0) config.Set("rotary_pct", *rotated * *heads / *width);
  config.Set("use_parallel_residual", file.Bool("gptneox.use_parallel_residual").value_or(true));
  config.Set("tie_word_embeddings", Rows(file, "output.weight") == std::nullopt);
  config.Set("vocab_size", Rows(file, "token_embd.weight").value_or(0));
}

}  // namespace

absl::StatusOr<std::string> ConfigJson(const File& file) {
  const std::string name(file.String("general.architecture").value_or(""));
  const Architecture* architecture = nullptr;
  std::vector<std::string> names;
  for (const Architecture& one : kArchitectures) {
    names.emplace_back(one.gguf);
    if (name == one.gguf) architecture = &one;
  }
  if (architecture == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("general.architecture is ", base::Excerpt(name),
                                                   "; supported: ", absl::StrJoin(names, ", ")));
  }
  Config config(file, *architecture);
  // They change the arithmetic, and no family that is served has them.
  for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping",
                          "attention.clamp_kqv", "attention.max_alibi_bias"}) {
    const double value = file.Number(config.Key(key)).value_or(0);
    if (value == 0) continue;
    config.Problem(absl::StrCat("key ", config.Key(key), " is ", value, "; supported: 0"));
  }
  const absl::string_view type = architecture->model_type;
  CheckHeads(file, type, config);
  if (type == "gpt2" || type == "gpt_neox") {
    SetGpt(file, *architecture, config);
    return config.Done();
  }
  config.Set("vocab_size", Rows(file, "token_embd.weight").value_or(0));
  config.Integer("context_length", "max_position_embeddings", true);
  config.Integer("embedding_length", "hidden_size", true);
  config.Integer("feed_forward_length", "intermediate_size", true);
  config.Integer("block_count", "num_hidden_layers", true);
  config.Integer("attention.head_count", "num_attention_heads", true);
  config.Integer("attention.head_count_kv", "num_key_value_heads");
  if (type != "phi3") config.Integer("attention.key_length", "head_dim");
  config.Number("attention.layer_norm_rms_epsilon", "rms_norm_eps", true);
  config.Set("tie_word_embeddings", Rows(file, "output.weight") == std::nullopt);
  if (file.Integer(config.Key("expert_count")).value_or(0) > 0) {
    config.Problem(
        absl::StrCat("key ", config.Key("expert_count"), ": mixtures of experts are not served"));
  }
  SetRope(file, config);
  if (type == "llama" || type == "granite" || type == "smollm3" || type == "olmo2") {
    config.Set("attention_bias", Rows(file, "blk.0.attn_q.bias").has_value());
    if (Rows(file, "blk.0.ffn_up.bias").has_value()) config.Set("mlp_bias", true);
  }
  if (type == "gemma3_text") {
    config.Integer("attention.sliding_window", "sliding_window");
    config.Number("rope.freq_base_swa", "rope_local_base_freq");
    // As llama.cpp takes it: 1 / sqrt(head size), but for the model of 27 billion parameters, which
    // has 62 layers.
    const auto layers = file.Integer("gemma3.block_count").value_or(0);
    const double head = file.Number("gemma3.attention.key_length").value_or(256);
    const double width = file.Number("gemma3.embedding_length").value_or(0);
    const double heads = file.Number("gemma3.attention.head_count").value_or(1);
    config.Set("query_pre_attn_scalar", layers == 62 ? width / heads : head);
  }
  if (type == "phi3") {
    config.Integer("attention.sliding_window", "sliding_window");
    const auto rotated = file.Number("phi3.rope.dimension_count");
    const auto width = file.Number("phi3.embedding_length");
    const auto heads = file.Number("phi3.attention.head_count");
    if (rotated && width && heads && *width > 0)
      config.Set("partial_rotary_factor", *rotated * *heads / *width);
  }
  if (type == "granite") {
    config.Number("attention.scale", "attention_multiplier");
    config.Number("embedding_scale", "embedding_multiplier");
    config.Number("residual_scale", "residual_multiplier");
    config.Number("logit_scale", "logits_scaling");
  }
  return config.Done();
}

std::string GenerationConfigJson(const File& file) {
  std::vector<JsonText> ends;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    if (const std::optional<int64_t> id = file.Integer(key)) ends.emplace_back(*id);
  }
  // Files from before eot_token_id: the tokens that end a turn in the templates of the families
  // that are served.
  if (!file.Has("tokenizer.ggml.eot_token_id")) {
    const auto tokens =
        file.Strings("tokenizer.ggml.tokens").value_or(std::vector<absl::string_view>());
    for (size_t id = 0; id < tokens.size(); ++id) {
      for (absl::string_view end : {"<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>"}) {
        if (tokens[id] == end) ends.emplace_back(static_cast<int64_t>(id));
      }
    }
  }
  return ends.empty() ? "{}" : JsonObject({{"eos_token_id", ends}}).text();
}

}  // namespace tandem::gguf
