// Memory-mapped safetensors files: a length, a JSON header, and the tensors' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::model {

struct TensorView {
  std::string dtype;  // as the file spells it: F32, BF16, F16, …
  std::vector<int64_t> shape;
  const void* data =
      nullptr;  // little-endian, row-major, any alignment; lives as long as the file's object
  size_t bytes = 0;
};

// "[4096, 256]"
std::string ShapeText(const std::vector<int64_t>& shape);

// One file. Immutable; keeps the mapping while it lives. The file must not be changed meanwhile.
class SafetensorsFile {
 public:
  // NOT_FOUND: cannot be opened. INVALID_ARGUMENT or DATA_LOSS (truncated): names the file, what is
  // wrong and the sizes expected and found. Checked: header length, JSON, each tensor's dtype,
  // shape times size = bytes, offsets inside the file, no overlap.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }

 private:
  SafetensorsFile() = default;
  absl::Status ReadHeader();

  std::string path_;
  void* mapping_ = nullptr;
  size_t size_ = 0;
  std::map<std::string, TensorView> tensors_;
};

// All weights of a directory: model.safetensors, or the files that model.safetensors.index.json
// names.
class Checkpoint {
 public:
  // Also an error: a tensor that the index places in a file that does not have it.
  static absl::StatusOr<Checkpoint> Open(const std::string& directory);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }

 private:
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, TensorView> tensors_;
};

}  // namespace tandem::model
