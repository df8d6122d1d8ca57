#include "model/pruned_output.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/hub/snapshot_directory.h"
#include "model/load.h"
#include "model/model_files.h"
#include "model/tensor_finder.h"

namespace tandem::model {
namespace {

namespace fs = std::filesystem;

absl::Status CannotWrite(const fs::path& path) {
  return absl::UnavailableError(
      absl::StrCat("cannot write ", path.string(), ": ", std::strerror(errno == 0 ? EIO : errno)));
}

// A tensor of the new file: its bytes, or rows of them.
struct Part {
  TensorView view;  // with the new shape and number of bytes
  absl::Span<const uint32_t> rows = {};
};
using Parts = std::map<std::string, Part>;

std::string Header(const Parts& parts) {
  base::JsonObject header;
  size_t at = 0;
  for (const auto& [name, part] : parts) {
    header.Set(name, base::JsonObject{{"dtype", part.view.dtype},
                                      {"shape", base::JsonText::Array(part.view.shape)},
                                      {"data_offsets", base::JsonText::Array(std::vector<size_t>{
                                                           at, at + part.view.bytes})}});
    at += part.view.bytes;
  }
  std::string text = header.text();
  text.append((8 - text.size() % 8) % 8, ' ');  // tensors begin at a multiple of 8
  return text;
}

class PartsWriter {
 public:
  PartsWriter(const fs::path& path, int64_t all,
              const std::function<void(int64_t, int64_t)>& progress)
      : path_(path), all_(all), progress_(progress), file_(path, std::ios::binary) {}

  void Write(const Part& part) {
    const char* data = static_cast<const char*>(part.view.data);
    if (part.rows.empty()) return Write(data, part.view.bytes);
    const size_t row = part.view.bytes / part.rows.size();
    for (const uint32_t token : part.rows) Write(data + token * row, row);
  }
  void Write(const char* data, size_t bytes) {
    constexpr size_t kPiece = size_t{16} << 20;
    while (bytes > 0) {
      const size_t now = std::min(bytes, kPiece);
      file_.write(data, static_cast<std::streamsize>(now));
      data += now;
      bytes -= now;
      done_ += static_cast<int64_t>(now);
      if (progress_) progress_(std::min(done_, all_), all_);
    }
  }
  absl::Status Close() {
    file_.close();
    return file_.good() ? absl::OkStatus() : CannotWrite(path_);
  }

 private:
  const fs::path path_;
  const int64_t all_;
  const std::function<void(int64_t, int64_t)>& progress_;
  std::ofstream file_;
  int64_t done_ = 0;
};

absl::Status WriteTensors(const Parts& parts, const fs::path& path,
                          const std::function<void(int64_t, int64_t)>& progress) {
  int64_t all = 0;
  for (const auto& [name, part] : parts) all += static_cast<int64_t>(part.view.bytes);
  PartsWriter writer(path, all, progress);
  const std::string header = Header(parts);
  const uint64_t size = header.size();
  char length[8];
  std::memcpy(length, &size, sizeof length);  // little-endian, as is all that is mapped
  writer.Write(length, sizeof length);
  writer.Write(header.data(), header.size());
  for (const auto& [name, part] : parts) writer.Write(part);
  return writer.Close();
}

absl::Status WriteConfig(const base::JsonValue& config, size_t tokens, const std::string& model_id,
                         const fs::path& path) {
  std::map<std::string, std::string> members;
  for (const auto& [name, value] : config.Members()) members[name] = value.Dump();
  members["draft_vocab_size"] = absl::StrCat(tokens);
  members["tie_word_embeddings"] = "false";
  members["pruned_vocabulary_of"] = base::JsonText(model_id).text();
  std::ofstream file(path, std::ios::binary);
  const char* before = "{\n  ";
  for (const auto& [name, value] : members) {
    file << std::exchange(before, ",\n  ") << base::JsonText(name).text() << ": " << value;
  }
  file << "\n}\n";
  file.close();
  return file.good() ? absl::OkStatus() : CannotWrite(path);
}

// What belongs to a model beside its weights: tokenizer, templates, licence.
bool IsCopied(const std::string& name) {
  if (name == "config.json" || absl::EndsWith(name, ".index.json")) return false;
  for (const char* end : {".json", ".txt", ".model", ".jinja", ".md"}) {
    if (absl::EndsWith(name, end)) return true;
  }
  return absl::StartsWith(name, "LICENSE");
}

absl::Status CopyOthers(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!IsCopied(name) || !it->is_regular_file(error)) continue;
    fs::copy_file(it->path(), to / name, error);
    if (error) break;
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot copy files of ", from.string(), ": ", error.message()));
}

absl::Status CheckPrunable(const ModelConfig& config, const base::JsonValue& json) {
  TANDEM_RETURN_IF_ERROR(CheckWholeOutput(config));
  if (config.int8_weights) {
    return absl::InvalidArgumentError(
        "its weights are int8 in the file: prune the model that they were made from, and load the "
        "draft with --dtype=int8");
  }
  if (json["text_config"].IsObject()) {
    return absl::InvalidArgumentError(
        "its config.json is a wrapper's (text_config); supported: that of a text model");
  }
  return absl::OkStatus();
}

// The tensors of the new file. `offsets`: as d2t.
Parts PartsOf(const ModelFiles& files, absl::Span<const uint32_t> tokens,
              absl::Span<const int64_t> offsets) {
  const TensorNames& names = files.config.family->tensors;
  const TensorFinder finder(files.checkpoint, names);
  const std::string embedding = finder.WeightName(names.embedding);
  const std::string output = finder.WeightName(finder.Output(names));
  const auto count = static_cast<int64_t>(tokens.size());
  Parts parts;
  for (const auto& [name, view] : files.checkpoint.tensors()) parts[name] = {view};
  parts[embedding] = {*files.tensors.embedding};
  TensorView rows = *files.tensors.output;
  rows.bytes = rows.bytes / static_cast<size_t>(rows.shape[0]) * tokens.size();
  rows.shape[0] = count;
  parts[output] = {rows, tokens};
  parts["d2t"] = {{"I64", {count}, offsets.data(), offsets.size() * sizeof(int64_t)}};
  return parts;
}

}  // namespace

absl::Status WritePruned(const std::string& given, absl::Span<const uint32_t> tokens,
                         const std::string& out,
                         const std::function<void(int64_t, int64_t)>& progress) {
  TANDEM_ASSIGN_OR_RETURN(const std::string directory, hub::SnapshotDirectory(given));
  std::error_code error;
  if (fs::exists(out, error)) {
    return absl::AlreadyExistsError(
        absl::StrCat(out, " is there already: give the name of a directory that is not"));
  }
  TANDEM_ASSIGN_OR_RETURN(
      const ModelFiles files,
      ReadModelFiles(directory, /*sampling_defaults=*/false, [&](const ModelConfig& config) {
        TANDEM_ASSIGN_OR_RETURN(const base::JsonValue json,
                                ReadJsonObject(fs::path(directory) / "config.json"));
        return CheckPrunable(config, json);
      }));
  const auto vocabulary = static_cast<uint32_t>(files.config.spec.vocabulary_size);
  if (tokens.empty() || tokens.size() >= vocabulary || tokens.back() >= vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(
        tokens.size(), " tokens are to be kept, the last ", tokens.empty() ? 0 : tokens.back(),
        "; the model has ", vocabulary, ": keep at least one, and fewer than all"));
  }
  std::vector<int64_t> offsets;
  for (size_t row = 0; row < tokens.size(); ++row) {
    TANDEM_CHECK(row == 0 || tokens[row - 1] < tokens[row]) << "tokens do not ascend";
    offsets.push_back(int64_t{tokens[row]} - static_cast<int64_t>(row));
  }
  const fs::path partial = out + ".partial";
  fs::remove_all(partial, error);
  if (!fs::create_directories(partial, error)) {
    return absl::UnavailableError(
        absl::StrCat("cannot make ", partial.string(), ": ", error.message()));
  }
  TANDEM_RETURN_IF_ERROR(CopyOthers(directory, partial));
  TANDEM_ASSIGN_OR_RETURN(const base::JsonValue config,
                          ReadJsonObject(fs::path(directory) / "config.json"));
  TANDEM_RETURN_IF_ERROR(
      WriteConfig(config, tokens.size(), files.Info().model_id, partial / "config.json"));
  TANDEM_RETURN_IF_ERROR(
      WriteTensors(PartsOf(files, tokens, offsets), partial / "model.safetensors", progress));
  // What cannot be loaded is no result: a family that does not read the field says so here.
  TANDEM_RETURN_IF_ERROR(
      ReadModelFiles(partial.string(), /*sampling_defaults=*/false, [](const ModelConfig&) {
        return absl::OkStatus();
      }).status());
  fs::rename(partial, out, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot rename ", partial.string(), " to ", out, ": ", error.message()));
}

}  // namespace tandem::model
