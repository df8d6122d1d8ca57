#include "client/pull/wanted_files.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/gguf/parts.h"

namespace tandem::client {
namespace {

constexpr const char* kTokenizerFiles[] = {
    "added_tokens.json", "chat_template.jinja",     "chat_template.json",
    "merges.txt",        "special_tokens_map.json", "tokenizer.json",
    "tokenizer.model",   "tokenizer_config.json",   "vocab.json"};
constexpr const char* kModelFiles[] = {"config.json", "generation_config.json"};

bool Has(absl::Span<const std::string> files, absl::string_view name) {
  return std::find(files.begin(), files.end(), name) != files.end();
}

// A file with such an end, or an empty text.
std::string Like(absl::Span<const std::string> files, absl::string_view end) {
  for (const std::string& file : files) {
    if (absl::EndsWith(file, end)) return file;
  }
  return "";
}

// A chat template beside the default one: it lies in a folder.
bool IsFurtherTemplate(absl::string_view file) {
  return absl::ConsumePrefix(&file, "additional_chat_templates/") &&
         absl::ConsumeSuffix(&file, ".jinja") && !file.empty() && !absl::StrContains(file, '/');
}

// The models that are one GGUF file, or the parts of one: each by what names it.
std::vector<std::string> GgufModels(absl::Span<const std::string> files) {
  std::vector<std::string> models;
  for (const std::string& file : files) {
    if (absl::EndsWith(file, ".gguf") && gguf::PartsOf(file).ok()) models.push_back(file);
  }
  return models;
}

// The first few, and how many more.
std::string Some(const std::vector<std::string>& names) {
  constexpr size_t kShown = 40;
  const size_t shown = std::min(names.size(), kShown);
  std::string text = absl::StrJoin(names.begin(), names.begin() + shown, ", ");
  if (names.size() > shown) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return text;
}

absl::Status NoWeights(absl::Span<const std::string> files) {
  const std::string lacks =
      absl::StrCat("it has no ", hub::kSingleWeights, " and no ", hub::kWeightIndex);
  if (const std::vector<std::string> models = GgufModels(files); !models.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(lacks, ", but GGUF files: name one of them, as in OWNER/NAME:", models.front(),
                     "; it has ", Some(models)));
  }
  struct Other {
    const char* end;
    const char* what;
  };
  constexpr Other kOthers[] = {
      {"adapter_model.safetensors",
       "an adapter: pull the model that it belongs to, or a merged one"},
      {".bin", "PyTorch's pickled weights: look for a revision or a copy with safetensors"},
      {".pth", "PyTorch's pickled weights: look for a revision or a copy with safetensors"},
      {".safetensors", "weights in another form"}};
  for (const Other& other : kOthers) {
    if (const std::string file = Like(files, other.end); !file.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(lacks, "; ", file, " is ", other.what));
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(lacks, ", so it is not a model"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> WantedFiles(absl::Span<const std::string> files,
                                                     hub::Need need) {
  if (need == hub::Need::kModel) {
    if (!Has(files, hub::kSingleWeights) && !Has(files, hub::kWeightIndex)) return NoWeights(files);
    if (!Has(files, "config.json")) {
      return absl::FailedPreconditionError("it has no config.json, so it is not a model");
    }
  }
  if (!Has(files, "tokenizer.json")) {
    return absl::FailedPreconditionError(absl::StrCat(
        "it has no tokenizer.json",
        Has(files, "tokenizer.model")
            ? "; its tokenizer.model alone is not supported: look for a copy with tokenizer.json"
            : ""));
  }
  std::vector<std::string> wanted;
  if (need == hub::Need::kModel) {
    for (const char* file : kModelFiles) {
      if (Has(files, file)) wanted.emplace_back(file);
    }
    if (!Has(files, hub::kSingleWeights)) wanted.emplace_back(hub::kWeightIndex);
  }
  for (const char* file : kTokenizerFiles) {
    if (Has(files, file)) wanted.emplace_back(file);
  }
  std::copy_if(files.begin(), files.end(), std::back_inserter(wanted), IsFurtherTemplate);
  return wanted;
}

absl::StatusOr<std::vector<std::string>> WantedGguf(absl::Span<const std::string> files,
                                                    const std::string& file) {
  TANDEM_ASSIGN_OR_RETURN(std::vector<std::string> parts, gguf::PartsOf(file));
  for (const std::string& part : parts) {
    if (Has(files, part)) continue;
    const std::vector<std::string> models = GgufModels(files);
    return absl::NotFoundError(
        absl::StrCat("it has no file ", part,
                     models.empty() ? ", nor any other GGUF file" : "; it has ", Some(models)));
  }
  return parts;
}

absl::StatusOr<std::vector<std::string>> WantedWeights(absl::Span<const std::string> files,
                                                       absl::string_view index) {
  if (Has(files, hub::kSingleWeights)) return std::vector<std::string>{hub::kSingleWeights};
  TANDEM_ASSIGN_OR_RETURN(std::vector<std::string> shards, hub::IndexedFiles(index));
  for (const std::string& shard : shards) {
    if (!Has(files, shard)) {
      return absl::FailedPreconditionError(absl::StrCat(hub::kWeightIndex, " names ", shard,
                                                        ", which the repository does not have"));
    }
  }
  return shards;
}

}  // namespace tandem::client
