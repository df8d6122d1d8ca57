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
    " (compressed-tensors' int-quantized: int8 weights by channel, int8 activations by token). "
    "Give "
    "the model that it was made from, or quantise that to w8a8";

// A field and what it may be, as JSON. "null" is a missing one, too.
struct Served {
  const char* name;
  std::vector<const char*> values;
};

// Source: QuantizationConfig, QuantizationScheme and QuantizationArgs of compressed-tensors.
const std::vector<Served>& ConfigFields() {
  static const auto* fields = new std::vector<Served>{
      {"quant_method", {R"("compressed-tensors")"}},
      {"format", {R"("int-quantized")"}},
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
      Problem(fields, name, "not known here");
    }
  }

  void CheckNumbers(Fields& group, const char* name, const std::vector<Served>& all) {
    std::optional<Fields> numbers = group.Object(name);
    if (numbers.has_value()) {
      Check(*numbers, all, {"observer", "observer_kwargs", "scale_dtype", "zp_dtype"});
    } else if (!group.Has(name)) {
      Problem(group, name, "it is needed");
    }
  }

  void Problem(Fields& fields, const std::string& name, const std::string& what) {
    fields.Problem(name, absl::StrCat(what, std::exchange(advice_, "")));
  }

 private:
  const char* advice_ = kAdvice;
};

}  // namespace

bool ReadQuantization(Fields& fields) {
  std::optional<Fields> config = fields.Object("quantization_config");
  if (!config.has_value()) return false;
  Checker checker;
  std::optional<Fields> groups = config->Object("config_groups");
  checker.Check(*config, ConfigFields(), {"ignore", "version", "global_compression_ratio"});
  if (!groups.has_value()) {
    if (!config->Has("config_groups")) checker.Problem(*config, "config_groups", "it is needed");
    return true;
  }
  for (const std::string& name : groups->Unread()) {
    std::optional<Fields> group = groups->Object(name);
    if (!group.has_value()) continue;
    checker.CheckNumbers(*group, "weights", WeightFields());
    checker.CheckNumbers(*group, "input_activations", ActivationFields());
    checker.Check(*group,
                  {{"output_activations", {"null"}}, {"format", {"null", R"("int-quantized")"}}},
                  {"targets"});
  }
  return true;
}

}  // namespace tandem::model
