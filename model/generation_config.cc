#include "model/generation_config.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/gguf/model_texts.h"
#include "common/sampling/parameters.h"
#include "model/files/json_fields.h"

namespace tandem::model {
namespace {

struct Range {
  double min = 0;
  bool above = false;  // `min` itself is outside
  double max = 1;
};

std::optional<double> ReadNumber(const base::JsonValue& json, const char* name, const Range& range,
                                 Fields& fields) {
  if (!fields.Has(name)) return std::nullopt;
  if (const std::optional<double> value = json[name].Number(); value.has_value()) {
    const double number = static_cast<float>(*value);
    const bool high_enough = range.above ? number > range.min : number >= range.min;
    if (high_enough && number <= range.max) return number;
  }
  fields.Problem(name, absl::StrCat("must be a number ", range.above ? "above " : "from ",
                                    range.min, range.above ? ", to " : " to ", range.max));
  return std::nullopt;
}

std::optional<uint32_t> ReadTopK(const base::JsonValue& json, Fields& fields) {
  constexpr int64_t kMax = 1 << 24;
  if (!fields.Has("top_k")) return std::nullopt;
  const std::optional<int64_t> value = json["top_k"].Integer();
  if (value.has_value() && *value >= 0 && *value <= kMax) return static_cast<uint32_t>(*value);
  fields.Problem("top_k", absl::StrCat("must be a whole number from 0 (all tokens) to ", kMax));
  return std::nullopt;
}

// A field that changes the text. Source: transformers, generation/configuration_utils.py.
struct Unserved {
  const char* name;
  std::optional<double> neutral;  // the value that does nothing; absent: only null does
  bool of_sampling = false;       // does nothing with do_sample false
};
constexpr Unserved kUnserved[] = {
    {"bad_words_ids", {}},
    {"begin_suppress_tokens", {}},
    {"constraints", {}},
    {"diversity_penalty", 0},
    {"dola_layers", {}},
    {"encoder_no_repeat_ngram_size", 0},
    {"encoder_repetition_penalty", 1},
    {"epsilon_cutoff", 0, true},
    {"eta_cutoff", 0, true},
    {"exponential_decay_length_penalty", {}},
    {"force_words_ids", {}},
    {"forced_bos_token_id", {}},
    {"forced_decoder_ids", {}},
    {"forced_eos_token_id", {}},
    {"guidance_scale", 1},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"no_repeat_ngram_size", 0},
    {"num_beam_groups", 1},
    {"num_beams", 1},
    {"penalty_alpha", 0},
    {"sequence_bias", {}},
    {"stop_strings", {}},
    {"suppress_tokens", {}},
    {"token_healing", 0},
    {"top_h", {}, true},
    {"typical_p", 1, true},
    {"watermarking_config", {}},
};

// Fields that are read here or by config.h, and those that say nothing about the text: ids, caches,
// how beams are scored, what generate() returns, how transformers itself speculates.
constexpr absl::string_view kKnown[] = {
    "_commit_hash",
    "_from_model_config",
    "assistant_confidence_threshold",
    "assistant_early_exit",
    "assistant_lookbehind",
    "bos_token_id",
    "cache_config",
    "cache_implementation",
    "compile_config",
    "decoder_start_token_id",
    "disable_compile",
    "do_sample",
    "early_stopping",
    "eos_token_id",
    "is_assistant",
    "length_penalty",
    "low_memory",
    "max_matching_ngram_size",
    "min_p",
    "num_assistant_tokens",
    "num_assistant_tokens_schedule",
    "output_attentions",
    "output_hidden_states",
    "output_logits",
    "output_scores",
    "pad_token_id",
    "prefill_chunk_size",
    "prompt_lookup_num_tokens",
    "renormalize_logits",
    "repetition_penalty",
    "return_dict_in_generate",
    "return_legacy_cache",
    "target_lookbehind",
    "temperature",
    "top_k",
    "top_p",
    "transformers_version",
    "use_cache",
};

bool IsNeutral(const base::JsonValue& value, const Unserved& field) {
  if (value.IsArray() || value.IsObject()) return value.size() == 0;
  if (const std::optional<bool> flag = value.Bool(); flag.has_value()) return !*flag;
  return field.neutral.has_value() && value.Number() == field.neutral;
}

// `sampled`: the text is drawn and not the likeliest one.
void CheckUnserved(const base::JsonValue& json, bool sampled, Fields& fields,
                   std::vector<std::string>* unused) {
  for (const auto& [name, value] : json.Members()) {
    if (value.IsNull()) continue;
    const auto* field = std::find_if(std::begin(kUnserved), std::end(kUnserved),
                                     [&name = name](const Unserved& f) { return f.name == name; });
    if (field == std::end(kUnserved)) {
      const bool known = std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
      if (!known && unused != nullptr) unused->push_back(name);
    } else if (!IsNeutral(value, *field)) {
      if (sampled || !field->of_sampling) {
        fields.Problem(name,
                       "not supported: take the field out, or ignore the file's sampling defaults "
                       "(--generation-config=none)");
      } else if (unused != nullptr) {
        unused->push_back(name);
      }
    }
  }
}

}  // namespace

absl::StatusOr<SamplingDefaults> ReadSamplingDefaults(const std::string& directory,
                                                      std::vector<std::string>* unused) {
  const std::filesystem::path path = std::filesystem::path(directory) / "generation_config.json";
  if (!gguf::HasModelText(path)) return SamplingDefaults();
  TANDEM_ASSIGN_OR_RETURN(const base::JsonValue json, ReadJsonObject(path));
  std::vector<std::string> problems;
  Fields fields(json, "", problems);
  SamplingDefaults defaults;
  defaults.temperature =
      ReadNumber(json, "temperature", {0, false, sampling::kMaxTemperature}, fields);
  const bool sampled = fields.Bool("do_sample", true);
  if (!sampled) defaults.temperature = 0;
  defaults.top_k = ReadTopK(json, fields);
  defaults.top_p = ReadNumber(json, "top_p", {0, true, 1}, fields);
  defaults.min_p = ReadNumber(json, "min_p", {0, false, 1}, fields);
  defaults.repetition_penalty =
      ReadNumber(json, "repetition_penalty", {0, true, sampling::kMaxRepetitionPenalty}, fields);
  CheckUnserved(json, sampled, fields, unused);
  if (problems.empty()) return defaults;
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), ": ", absl::StrJoin(problems, "; ")));
}

}  // namespace tandem::model
