#include "model/pruned_output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/json.h"
#include "common/base/output_file.h"
#include "common/base/read_file.h"
#include "common/base/status_macros.h"
#include "common/hub/snapshot_directory.h"
#include "model/load.h"
#include "model/model_files.h"
#include "model/tensor_finder.h"

namespace tandem::model {
namespace {

namespace fs = std::filesystem;

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
  PartsWriter(base::OutputFile file, int64_t all,
              const std::function<void(int64_t, int64_t)>& progress)
      : file_(std::move(file)), all_(all), progress_(progress) {}

  absl::Status Write(const Part& part) {
    const char* data = static_cast<const char*>(part.view.data);
    if (part.rows.empty()) return Write(data, part.view.bytes);
    const size_t row = part.view.bytes / part.rows.size();
    for (const uint32_t token : part.rows) {
      TANDEM_RETURN_IF_ERROR(Write(data + token * row, row));
    }
    return absl::OkStatus();
  }
  absl::Status Write(const char* data, size_t bytes) {
    constexpr size_t kPiece = size_t{16} << 20;
    while (bytes > 0) {
      const size_t now = std::min(bytes, kPiece);
      TANDEM_RETURN_IF_ERROR(file_.Write({data, now}));
      data += now;
      bytes -= now;
      done_ += static_cast<int64_t>(now);
      if (progress_) progress_(std::min(done_, all_), all_);
    }
    return absl::OkStatus();
  }
  absl::Status Commit() { return file_.Commit(); }

 private:
  base::OutputFile file_;
  const int64_t all_;
  const std::function<void(int64_t, int64_t)>& progress_;
  int64_t done_ = 0;
};

absl::Status WriteTensors(const Parts& parts, const fs::path& path,
                          const std::function<void(int64_t, int64_t)>& progress) {
  int64_t all = 0;
  for (const auto& [name, part] : parts) all += static_cast<int64_t>(part.view.bytes);
  TANDEM_ASSIGN_OR_RETURN(base::OutputFile file,
                          base::OutputFile::Create(path.string(), base::Existing::kKeep));
  PartsWriter writer(std::move(file), all, progress);
  const std::string header = Header(parts);
  const uint64_t size = header.size();
  char length[8];
  std::memcpy(length, &size, sizeof length);  // little-endian, as is all that is mapped
  TANDEM_RETURN_IF_ERROR(writer.Write(length, sizeof length));
  TANDEM_RETURN_IF_ERROR(writer.Write(header.data(), header.size()));
  for (const auto& [name, part] : parts) TANDEM_RETURN_IF_ERROR(writer.Write(part));
  return writer.Commit();
}

absl::Status WriteConfig(const base::JsonValue& config, size_t tokens, const std::string& model_id,
                         const fs::path& path) {
  std::map<std::string, std::string> members;
  for (const auto& [name, value] : config.Members()) members[name] = value.Dump();
  members["draft_vocab_size"] = absl::StrCat(tokens);
  members["tie_word_embeddings"] = "false";
  members["pruned_vocabulary_of"] = base::JsonText(model_id).text();
  std::string text;
  const char* before = "{\n  ";
  for (const auto& [name, value] : members) {
    absl::StrAppend(&text, std::exchange(before, ",\n  "), base::JsonText(name).text(), ": ",
                    value);
  }
  absl::StrAppend(&text, "\n}\n");
  return base::WriteFile(path.string(), text, base::Existing::kKeep);
}

// What belongs to a model beside its weights: tokenizer, templates, licence.
bool IsCopied(const std::string& name) {
  if (name == "config.json" || absl::EndsWith(name, ".index.json")) return false;
  for (const char* end : {".json", ".txt", ".model", ".jinja", ".md"}) {
    if (absl::EndsWith(name, end)) return true;
  }
  return absl::StartsWith(name, "LICENSE");
}

constexpr int64_t kMaxCopiedBytes = 256 << 20;

absl::Status CopyOthers(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!IsCopied(name) || !it->is_regular_file(error)) continue;
    TANDEM_ASSIGN_OR_RETURN(const std::string content,
                            base::ReadRegularFile(it->path().string(), kMaxCopiedBytes));
    TANDEM_RETURN_IF_ERROR(base::WriteFile((to / name).string(), content, base::Existing::kKeep));
  }
  return error ? base::CannotWrite(from.string(), error.value(), "read") : absl::OkStatus();
}

absl::Status CheckPrunable(const ModelConfig& config, const base::JsonValue& json) {
  TANDEM_RETURN_IF_ERROR(CheckWholeOutput(config));
  if (config.int8_weights) {
    return absl::InvalidArgumentError(
        "its weights are int8 in the file: prune the model that they were made from, and load the "
        "draft with --dtype=int8");
  }
  if (config.packed.format != PackedFormat::kNone) {
    return absl::InvalidArgumentError(
        "its weights are packed in four bits in the file: prune the model that they were made "
        "from, and load the draft with --dtype=int4");
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

std::string WithoutSlash(std::string directory) {
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  return directory;
}

}  // namespace

absl::Status CheckPrunedOutput(const std::string& out) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(WithoutSlash(out), error))) {
    return absl::AlreadyExistsError(
        absl::StrCat(out, " already exists: give the name of a directory that does not"));
  }
  return base::CheckOutput(WithoutSlash(out), base::Existing::kKeep);
}

absl::Status WritePruned(const std::string& given, absl::Span<const uint32_t> tokens,
                         const std::string& out,
                         const std::function<void(int64_t, int64_t)>& progress) {
  TANDEM_ASSIGN_OR_RETURN(const std::string directory, hub::SnapshotDirectory(given));
  TANDEM_RETURN_IF_ERROR(CheckPrunedOutput(out));
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
  TANDEM_ASSIGN_OR_RETURN(const ModelInfo info, files.Info(Dtype::kAuto));
  const fs::path partial = absl::StrCat(WithoutSlash(out), ".", getpid(), ".tmp");
  std::error_code error;
  if (!fs::create_directory(partial, error)) {
    return base::CannotWrite(partial.string(), error ? error.value() : EEXIST, "make");
  }
  const absl::Cleanup remove_it = [&] { fs::remove_all(partial, error); };
  TANDEM_RETURN_IF_ERROR(CopyOthers(directory, partial));
  TANDEM_ASSIGN_OR_RETURN(const base::JsonValue config,
                          ReadJsonObject(fs::path(directory) / "config.json"));
  TANDEM_RETURN_IF_ERROR(
      WriteConfig(config, tokens.size(), info.model_id, partial / "config.json"));
  TANDEM_RETURN_IF_ERROR(
      WriteTensors(PartsOf(files, tokens, offsets), partial / "model.safetensors", progress));
  // What cannot be loaded is not a result: a family that does not read the field says so here.
  TANDEM_RETURN_IF_ERROR(
      ReadModelFiles(partial.string(), /*sampling_defaults=*/false, [](const ModelConfig&) {
        return absl::OkStatus();
      }).status());
  return base::Publish(partial.string(), WithoutSlash(out), base::Existing::kKeep);
}

}  // namespace tandem::model
