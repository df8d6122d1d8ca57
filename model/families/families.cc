#include "model/families/families.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/json.h"

namespace tandem::model {
namespace {

using base::JsonValue;

const Family* ByModelType(Fields& fields) {
  const std::optional<std::string> type = fields["model_type"].String();
  std::vector<std::string> served;
  for (const Family* family : Families()) {
    const auto& others = family->other_model_types;
    if (type == family->name) return family;
    if (type.has_value() && std::find(others.begin(), others.end(), *type) != others.end()) {
      return family;
    }
    served.push_back(family->name);
  }
  fields.Problem("model_type", absl::StrCat("supported: ", absl::StrJoin(served, ", ")));
  return nullptr;
}

const Family* ByArchitecture(Fields& fields) {
  std::vector<std::string> served;
  for (const Family* family : Families()) {
    served.insert(served.end(), family->architectures.begin(), family->architectures.end());
  }
  for (const JsonValue& architecture : fields["architectures"].Elements()) {
    const std::optional<std::string> name = architecture.String();
    for (const Family* family : Families()) {
      const auto& names = family->architectures;
      if (name.has_value() && std::find(names.begin(), names.end(), *name) != names.end()) {
        return family;
      }
    }
  }
  fields.Problem("architectures", absl::StrCat("supported: ", absl::StrJoin(served, ", ")));
  return nullptr;
}

}  // namespace

const std::vector<const Family*>& Families() {
  static const std::vector<const Family*> families = {
      &LlamaFamily(),   &MistralFamily(), &Qwen2Family(), &Qwen3Family(),
      &Smollm3Family(), &Gemma3Family(),  &Phi3Family(),  &Olmo2Family(),
      &GraniteFamily(), &Gpt2Family(),    &OptFamily(),   &GptNeoxFamily()};
  return families;
}

const Family* FindFamily(Fields& fields) {
  const bool by_architecture = !fields.Has("model_type") && fields.Has("architectures");
  return by_architecture ? ByArchitecture(fields) : ByModelType(fields);
}

}  // namespace tandem::model
