#include "common/gguf/model_texts.h"

#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/read_file.h"
#include "common/base/status_macros.h"
#include "common/gguf/config_json.h"
#include "common/gguf/gguf_file.h"
#include "common/gguf/tokenizer_json.h"

namespace tandem::gguf {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::string> Present(const fs::path& path) {
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                          File::Open(path.parent_path().string()));
  const std::string name = path.filename().string();
  absl::StatusOr<std::string> text = absl::NotFoundError("a GGUF says nothing that would be in it");
  if (name == "config.json") text = ConfigJson(*file);
  if (name == "generation_config.json") text = GenerationConfigJson(*file);
  if (name == "tokenizer.json") text = TokenizerJson(*file);
  if (name == "tokenizer_config.json") text = TokenizerConfigJson(*file);
  if (text.ok()) return text;
  return absl::Status(text.status().code(),
                      absl::StrCat(path.string(), ": ", text.status().message()));
}

}  // namespace

bool IsGguf(const std::string& model) {
  std::error_code ignored;
  return absl::EndsWith(model, ".gguf") && fs::exists(model, ignored) &&
         !fs::is_directory(model, ignored);
}

absl::StatusOr<std::string> ReadModelText(const std::string& path, int64_t max_bytes) {
  const std::string model = fs::path(path).parent_path().string();
  if (IsGguf(model)) {
    TANDEM_ASSIGN_OR_RETURN(std::string text, Present(path));
    if (static_cast<int64_t>(text.size()) <= max_bytes) return text;
    return absl::InvalidArgumentError(
        absl::StrCat(path, " would have ", text.size(), " bytes; it may have at most ", max_bytes));
  }
  std::error_code ignored;
  if (absl::EndsWith(model, ".gguf") && !fs::exists(model, ignored)) {
    return absl::NotFoundError(
        absl::StrCat(model,
                     ": No such file or directory; give the path of a GGUF file, or of the "
                     "hub OWNER/NAME:FILE.gguf"));
  }
  return base::ReadRegularFile(path, max_bytes);
}

absl::StatusOr<std::string> ReadModelTextIfThere(const std::string& path, int64_t max_bytes) {
  absl::StatusOr<std::string> text = ReadModelText(path, max_bytes);
  return absl::IsNotFound(text.status()) ? "" : text;
}

bool HasModelText(const std::string& path) {
  std::error_code ignored;
  const fs::path whole(path);
  if (!IsGguf(whole.parent_path().string())) return fs::exists(whole, ignored);
  const std::string name = whole.filename().string();
  return name == "config.json" || name == "generation_config.json" || name == "tokenizer.json" ||
         name == "tokenizer_config.json";
}

}  // namespace tandem::gguf
