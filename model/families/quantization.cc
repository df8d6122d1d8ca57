#include "model/families/every_family.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem::model {
namespace {

constexpr char kAdvice[] =
    " (compressed-tensors' int-quantized: int8 weights by channel, int8 activations by token; "
    "pack-quantized, GPTQ and AWQ: 4 bits in groups of 32, 64 or 128). Give the model that it was "
    "made from, or a GGUF of it";

// A field and what it may be, as JSON. "null" is a missing one, too.
struct Served {
  const char* name;
  std::vector<const char*> values;
};

// Source: QuantizationConfig, QuantizationScheme and QuantizationArgs of compressed-tensors.
const std::vector<Served>& ConfigFields() {
  static const auto* fields = new std::vector<Served>{
      {"quant_method", {R"("compressed-tensors")"}},
      {"format", {R"("int-quantized")", R"("pack-quantized")"}},
      {"quantization_status", {R"("compressed")", "null"}},
      {"kv_cache_scheme", {"null"}},
      {"sparsity_config", {"{}", "null"}},
      {"transform_config", {"{}", "null"}},
  };
  return *fields;
}

const std::vector<Served>& WeightFields() {
  static const auto* fields = new std::vector<Served>{
      {"num_bits", {"8", "null"}},
      {"type", {R"("int")", "null"}},
      {"symmetric", {"true", "null"}},
      {"strategy", {R"("channel")"}},
      {"dynamic", {"false", "null"}},
      {"group_size", {"null", "-1"}},
      {"block_structure", {"null"}},
      // How the integers were chosen. Of whole channels no order is left in the checkpoint.
      {"actorder", {"null", "false", R"("weight")", R"("static")"}},
  };
  return *fields;
}

const std::vector<Served>& ActivationFields() {
  static const auto* fields = new std::vector<Served>{
      {"num_bits", {"8", "null"}},     {"type", {R"("int")", "null"}},
      {"symmetric", {"true", "null"}}, {"strategy", {R"("token")"}},
      {"dynamic", {"true"}},           {"group_size", {"null"}},
      {"block_structure", {"null"}},   {"actorder", {"null", "false"}},
  };
  return *fields;
}

// Of pack-quantized.
const std::vector<Served>& PackedWeightFields() {
  static const auto* fields = new std::vector<Served>{
      {"num_bits", {"4"}},
      {"type", {R"("int")", "null"}},
      {"symmetric", {"true", "false", "null"}},
      {"strategy", {R"("group")"}},
      {"dynamic", {"false", "null"}},
      {"group_size", {"32", "64", "128"}},
      {"block_structure", {"null"}},
      // By "group" the checkpoint has the groups of inputs, which must be in their order.
      {"actorder", {"null", "false", R"("weight")", R"("static")", R"("group")"}},
  };
  return *fields;
}

// Source: QuantizeConfig of AutoGPTQ and of GPTQModel, GPTQConfig of transformers.
const std::vector<Served>& GptqFields() {
  static const auto* fields = new std::vector<Served>{
      {"quant_method", {R"("gptq")"}},
      {"bits", {"4"}},
      {"group_size", {"32", "64", "128"}},
      // The zero points, and the groups of inputs, are in the checkpoint.
      {"sym", {"true", "false", "null"}},
      {"desc_act", {"false", "true", "null"}},
      {"checkpoint_format", {R"("gptq")", R"("gptq_v2")", "null"}},
      {"format", {R"("gptq")", R"("gptq_v2")", "null"}},
      {"pack_dtype", {R"("int32")", "null"}},
      {"is_marlin_format", {"false", "null"}},
      {"lm_head", {"false", "true", "null"}},
      {"dynamic", {"{}", "null"}},
      {"adapter", {"null"}},
      {"rotation", {"null"}},
  };
  return *fields;
}

// How the integers were chosen, and what computes with them elsewhere.
const std::vector<std::string>& GptqSilent() {
  static const auto* names = new std::vector<std::string>{
      "act_group_aware",
      "backend",
      "batch_size",
      "block_name_to_quantize",
      "cache_block_outputs",
      "damp_auto_increment",
      "damp_percent",
      "dataset",
      "disable_exllama",
      "exllama_config",
      "group_aware",
      "max_input_length",
      "meta",
      "model_file_base_name",
      "model_name_or_path",
      "model_seqlen",
      "module_name_preceding_first_block",
      "modules_in_block_to_quantize",
      "modules_to_not_convert",
      "mse",
      "pad_token_id",
      "static_groups",
      "tokenizer",
      "true_sequential",
      "use_cuda_fp16",
      "use_exllama",
      "v2",
      "v2_alpha",
      "version",
  };
  return *names;
}

// Source: AwqConfig of AutoAWQ and of transformers.
const std::vector<Served>& AwqFields() {
  static const auto* fields = new std::vector<Served>{
      {"quant_method", {R"("awq")"}},          {"bits", {"4"}},
      {"group_size", {"32", "64", "128"}},     {"zero_point", {"true", "false", "null"}},
      {"version", {R"("gemm")", R"("GEMM")"}}, {"backend", {R"("autoawq")", "null"}},
  };
  return *fields;
}

// Reports what is not served. What to do is said once.
class Checker {
 public:
  // `silent`: fields that say nothing of what is computed.
  void Check(Fields& fields, const std::vector<Served>& all,
             const std::vector<std::string>& silent) {
    for (const Served& served : all) {
      const std::string value = fields[served.name].Dump();
      if (std::any_of(served.values.begin(), served.values.end(),
                      [&value](const char* allowed) { return value == allowed; })) {
        continue;
      }
      Problem(fields, served.name,
              absl::StrCat("served is ", absl::StrJoin(served.values, " or ")));
    }
    for (const std::string& name : fields.Unread()) {
      if (std::find(silent.begin(), silent.end(), name) != silent.end()) continue;
      Problem(fields, name, "unknown here");
    }
  }

  void CheckNumbers(Fields& group, const char* name, const std::vector<Served>& all) {
    std::optional<Fields> numbers = group.Object(name);
    if (numbers.has_value()) {
      Check(*numbers, all, {"observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
    } else if (!group.Has(name)) {
      Problem(group, name, "it is required");
    }
  }

  void Problem(Fields& fields, const std::string& name, const std::string& what) {
    fields.Problem(name, absl::StrCat(what, std::exchange(advice_, "")));
  }

 private:
  const char* advice_ = kAdvice;
};

// The numbers of a group of modules, or of all.
int GroupSize(const Fields& fields) {
  return static_cast<int>(fields["group_size"].Integer().value_or(0));
}

PackedScheme ReadGptq(Fields& config, Checker& checker) {
  checker.Check(config, GptqFields(), GptqSilent());
  const char* name = config.Has("checkpoint_format") ? "checkpoint_format" : "format";
  const bool is_second = config[name].String() == "gptq_v2";
  return {is_second ? PackedFormat::kGptqV2 : PackedFormat::kGptq, GroupSize(config),
          /*has_zeros=*/true};
}

PackedScheme ReadAwq(Fields& config, Checker& checker) {
  checker.Check(config, AwqFields(),
                {"do_fuse", "exllama_config", "fuse_max_seq_len", "modules_to_fuse",
                 "modules_to_not_convert"});
  return {PackedFormat::kAwq, GroupSize(config), /*has_zeros=*/true};
}

// Of compressed-tensors.
Quantization ReadCompressed(Fields& config, Checker& checker) {
  Quantization result;
  const bool packed = config["format"].String() == "pack-quantized";
  result.int8 = !packed;
  if (packed) result.packed.format = PackedFormat::kPackQuantized;
  std::optional<Fields> groups = config.Object("config_groups");
  checker.Check(config, ConfigFields(), {"ignore", "version", "global_compression_ratio"});
  if (!groups.has_value()) {
    if (!config.Has("config_groups")) checker.Problem(config, "config_groups", "it is required");
    return result;
  }
  for (const std::string& name : groups->Unread()) {
    std::optional<Fields> group = groups->Object(name);
    if (!group.has_value()) continue;
    checker.CheckNumbers(*group, "weights", packed ? PackedWeightFields() : WeightFields());
    std::vector<Served> others = {
        {"output_activations", {"null"}},
        {"format", {"null", packed ? R"("pack-quantized")" : R"("int-quantized")"}}};
    if (packed) {
      others.push_back({"input_activations", {"null"}});
    } else {
      checker.CheckNumbers(*group, "input_activations", ActivationFields());
    }
    checker.Check(*group, others, {"targets"});
    if (!packed) continue;
    const base::JsonValue weights = (*group)["weights"];
    const PackedScheme scheme = {PackedFormat::kPackQuantized,
                                 static_cast<int>(weights["group_size"].Integer().value_or(0)),
                                 !weights["symmetric"].Bool().value_or(true)};
    if (result.packed.group != 0 && result.packed != scheme) {
      checker.Problem(*group, "weights", "served is one scheme for all modules");
    }
    result.packed = scheme;
  }
  if (packed && result.packed.group == 0) {
    checker.Problem(config, "config_groups",
                    "it must have a group, whose weights have a group_size");
  }
  return result;
}

}  // namespace

Quantization ReadQuantization(Fields& fields) {
  std::optional<Fields> config = fields.Object("quantization_config");
  if (!config.has_value()) return {};
  Checker checker;
  const std::string method = (*config)["quant_method"].String().value_or("");
  if (method == "gptq") return {.packed = ReadGptq(*config, checker)};
  if (method == "awq") return {.packed = ReadAwq(*config, checker)};
  return ReadCompressed(*config, checker);
}

}  // namespace tandem::model
