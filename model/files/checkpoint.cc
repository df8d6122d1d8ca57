#include "model/files/checkpoint.h"

#include <filesystem>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/read_file.h"
#include "common/base/status_macros.h"
#include "common/gguf/model_texts.h"
#include "common/hub/repository_files.h"
#include "model/files/gguf_tensors.h"

namespace tandem::model {
namespace {

using base::JsonValue;

constexpr char kSingle[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr int kMaxIndexDepth = 16;  // of nesting

// tensor name -> file name
absl::StatusOr<std::map<std::string, std::string>> ReadIndex(const std::filesystem::path& path) {
  TANDEM_ASSIGN_OR_RETURN(const std::string text,
                          base::ReadRegularFile(path.string(), hub::kMaxIndexBytes));
  const auto json = JsonValue::Parse(text, kMaxIndexDepth);
  absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat(path.string(), " has no weight_map {tensor: file in this directory}"));
  if (!json.ok() || !(*json)["weight_map"].IsObject()) return wrong;
  std::map<std::string, std::string> places;
  for (const auto& [name, place] : (*json)["weight_map"].Members()) {
    const std::optional<std::string> file = place.String();
    if (!file.has_value() || file->find('/') != std::string::npos) return wrong;
    places[name] = *file;
  }
  return places;
}

}  // namespace

absl::StatusOr<Checkpoint> Checkpoint::Open(const std::string& directory) {
  std::filesystem::path folder(directory);
  std::error_code ignored;
  Checkpoint checkpoint;
  if (gguf::IsGguf(directory)) {
    TANDEM_ASSIGN_OR_RETURN(checkpoint.gguf_, gguf::File::Open(directory));
    TANDEM_ASSIGN_OR_RETURN(GgufTensors read, ReadGgufTensors(*checkpoint.gguf_));
    checkpoint.tensors_ = std::move(read.tensors);
    checkpoint.copies_ = std::move(read.copies);
    return checkpoint;
  }
  if (std::filesystem::exists(folder / kSingle, ignored)) {
    TANDEM_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open((folder / kSingle).string()));
    checkpoint.tensors_ = file->tensors();
    checkpoint.files_.push_back(std::move(file));
    return checkpoint;
  }
  if (!std::filesystem::exists(folder / kIndex, ignored)) {
    return absl::NotFoundError(absl::StrCat(directory, " has neither ", kSingle, " nor ", kIndex));
  }
  auto places = ReadIndex(folder / kIndex);
  TANDEM_RETURN_IF_ERROR(places.status());
  std::set<std::string> names;
  for (const auto& [tensor, name] : *places) names.insert(name);
  for (const std::string& name : names) {
    TANDEM_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Open((folder / name).string()));
    for (const auto& [tensor, view] : file->tensors()) {
      if (!checkpoint.tensors_.emplace(tensor, view).second) {
        return absl::InvalidArgumentError(
            absl::StrCat(file->path(), ": tensor ", tensor, " is in another file too"));
      }
    }
    for (const auto& [tensor, place] : *places) {
      if (place == name && file->tensors().count(tensor) == 0) {
        return absl::InvalidArgumentError(absl::StrCat(file->path(), " lacks tensor ", tensor,
                                                       ", which ", kIndex, " places there"));
      }
    }
    checkpoint.files_.push_back(std::move(file));
  }
  return checkpoint;
}

}  // namespace tandem::model
