// All weights of a model's directory.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/gguf/gguf_file.h"
#include "model/cpu/buffer.h"
#include "model/files/safetensors.h"

namespace tandem::model {

// The tensors of model.safetensors, or else of all files that model.safetensors.index.json names;
// or of a GGUF, under the same names (gguf_tensors.h).
// Immutable, so threads may share it. Owns the mappings; moving it keeps every TensorView in place.
class Checkpoint {
 public:
  // NOT_FOUND: the directory has neither of the two. INVALID_ARGUMENT: the index is wrong, a file
  // lacks a tensor that the index places there, or two files have the same tensor. Each file is
  // checked as SafetensorsFile::Open says.
  // Of a GGUF: as gguf::File::Open and ReadGgufTensors.
  static absl::StatusOr<Checkpoint> Open(const std::string& directory);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }

  // SafetensorsFile::DropPages of each file.
  void DropPages() const {
    for (const auto& file : files_) file->DropPages();
    if (gguf_ != nullptr) gguf_->DropPages();
  }

 private:
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::unique_ptr<gguf::File> gguf_;
  std::vector<cpu::Buffer> copies_;  // of tensors that the GGUF has in another order
  std::map<std::string, TensorView> tensors_;
};

}  // namespace tandem::model
