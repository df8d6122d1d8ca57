// A memory-mapped safetensors file: a length, a JSON header, and the tensors' bytes.
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

struct PackedTensor;

// A tensor in a mapped file. Valid while the file's object lives.
struct TensorView {
  std::string dtype;  // as the file spells it: F32, BF16, F16, …
  std::vector<int64_t> shape;
  const void* data = nullptr;  // little-endian, row-major, any alignment
  size_t bytes = 0;
  // Not null: `data` is, and these are blocks that Unpack (packed_tensor.h) makes of a matrix in
  // another form.
  std::shared_ptr<const PackedTensor> packed;
};

inline int64_t Elements(const TensorView& view) {
  int64_t count = 1;
  for (int64_t size : view.shape) count *= size;
  return count;
}

// A weight and its bias, which is null where the model has none. A weight of I8 is its integers
// times its output's scale.
struct LinearView {
  const TensorView* weight = nullptr;  // [out, in]
  const TensorView* bias = nullptr;    // [out]
  const TensorView* scale = nullptr;   // [out] or [out, 1]; null unless the weight is I8
};

// "[4096, 256]"
std::string ShapeText(const std::vector<int64_t>& shape);

// Immutable, so threads may share it. It keeps the mapping while it lives; nobody may change the
// file meanwhile.
class SafetensorsFile {
 public:
  // NOT_FOUND: the file cannot be opened. DATA_LOSS: it is truncated. INVALID_ARGUMENT: anything
  // else. The message names the file, what is wrong, and the sizes expected and found. Open checks
  // the header's length and JSON; of each tensor that its dtype is known, that its shape times its
  // element's size is its number of bytes, and that it lies inside the file; and that no two
  // overlap.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(const std::string& path);

  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }

  // Asks the system to forget what it holds of the file in memory: who reads it next waits for the
  // disk. Advice only; what other processes have mapped stays.
  void DropPages() const;

 private:
  SafetensorsFile() = default;
  absl::Status ReadHeader();

  std::string path_;
  void* mapping_ = nullptr;
  size_t size_ = 0;
  std::map<std::string, TensorView> tensors_;
};

}  // namespace tandem::model
