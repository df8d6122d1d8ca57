#include "model/config.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/gguf/model_texts.h"
#include "model/families/every_family.h"
#include "model/families/families.h"
#include "model/files/directory_check.h"
#include "model/files/json_fields.h"

namespace tandem::model {
namespace {

using base::JsonValue;

// Adds what `fields` has to `tokens`, each once.
void AddEos(Fields& fields, std::vector<uint32_t>& tokens) {
  if (!fields.Has("eos_token_id")) return;
  const JsonValue value = fields["eos_token_id"];
  for (const JsonValue& each : value.IsArray() ? value.Elements() : std::vector{value}) {
    const std::optional<int64_t> id = each.Integer();
    if (!id.has_value() || *id < 0 || *id > std::numeric_limits<int32_t>::max()) {
      fields.Problem("eos_token_id", "must be a token id or a list of them");
      return;
    }
    const auto token = static_cast<uint32_t>(*id);
    if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
  }
}

ModelConfig ReadFields(Fields& fields) {
  ModelConfig config;
  config.family = FindFamily(fields);
  // Fields of an unknown family may have other names and meanings: nothing is said of them.
  if (config.family == nullptr) return config;
  // A wrapper has the text's fields in an object.
  std::optional<Fields> text = fields.Object("text_config");
  config.spec = config.family->read(text.has_value() ? *text : fields);
  AddEos(fields, config.eos_token_ids);
  if (text.has_value()) {
    AddEos(*text, config.eos_token_ids);
    config.spec.tied_embeddings = fields.Bool("tie_word_embeddings", config.spec.tied_embeddings);
    RefuseUnread(*text);
  }
  const Quantization quantization = ReadQuantization(fields);
  config.int8_weights = quantization.int8;
  config.packed = quantization.packed;
  RefuseUnread(fields);
  return config;
}

}  // namespace

absl::StatusOr<ModelConfig> ReadConfig(const std::string& directory) {
  std::filesystem::path folder(directory);
  if (!gguf::IsGguf(directory)) TANDEM_RETURN_IF_ERROR(CheckDirectory(directory));
  TANDEM_ASSIGN_OR_RETURN(const JsonValue json, ReadJsonObject(folder / "config.json"));
  std::vector<std::string> problems;
  Fields fields(json, "", problems);
  ModelConfig config = ReadFields(fields);
  if (config.family != nullptr && gguf::HasModelText(folder / "generation_config.json")) {
    TANDEM_ASSIGN_OR_RETURN(const JsonValue generation,
                            ReadJsonObject(folder / "generation_config.json"));
    Fields generation_fields(generation, "generation_config.json: ", problems);
    AddEos(generation_fields, config.eos_token_ids);
  }
  // Where something is wrong already, it may be the vocabulary's size.
  const bool sizes_known = problems.empty();
  for (uint32_t token : config.eos_token_ids) {
    if (sizes_known && token >= static_cast<uint32_t>(config.spec.vocabulary_size)) {
      problems.push_back(absl::StrCat("eos_token_id ", token, " is not below vocab_size ",
                                      config.spec.vocabulary_size));
    }
  }
  if (!problems.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat((folder / "config.json").string(), ": ", absl::StrJoin(problems, "; ")));
  }
  return config;
}

std::string ModelConfig::Canonical() const {
  const std::string model = absl::StrCat(family->name, " ", spec.Canonical());
  if (packed.format == PackedFormat::kNone) return model;
  return absl::StrCat(model, " packed=", static_cast<int>(packed.format), ",", packed.group);
}

}  // namespace tandem::model
