// A GGUF file, or all parts of a split one: metadata by key, and tensors. Versions 2 and 3,
// little-endian. The format: github.com/ggml-org/ggml, page gguf.md.
//
// Opening maps the files and checks them. Counts are bounded, and nothing is allocated for what was
// not seen in the file, so no number in a hostile file costs memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::gguf {

// Elements of one type, in the file. Those of numbers and booleans have a fixed size; strings have
// theirs before them.
struct Array {
  uint32_t type = 0;  // as in the file
  uint64_t size = 0;  // elements
  const char* data = nullptr;
};

using Value = std::variant<uint64_t, int64_t, double, bool, absl::string_view, Array>;

struct Tensor {
  std::string type;            // Q4_0, F32, … as ggml names it
  std::vector<int64_t> shape;  // as PyTorch orders it: the innermost last
  const void* data = nullptr;  // rows one after the other, little-endian
  size_t bytes = 0;
};

// Immutable, so threads may share it. It keeps the mappings while it lives; nobody may change the
// files meanwhile. All views are into them.
class File {
 public:
  // `path`: of a split model its first part, NAME-00001-of-0000N.gguf; the others lie beside it.
  // NOT_FOUND: a file cannot be opened. DATA_LOSS: it is truncated. INVALID_ARGUMENT: anything
  // else. The message names the file and what is wrong.
  static absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }

  bool Has(absl::string_view key) const { return values_.contains(key); }
  // Absent: there is no such key, or it has a value of another kind. Numbers of any type are
  // numbers.
  std::optional<absl::string_view> String(absl::string_view key) const;
  std::optional<int64_t> Integer(absl::string_view key) const;
  std::optional<double> Number(absl::string_view key) const;
  std::optional<bool> Bool(absl::string_view key) const;
  std::optional<std::vector<absl::string_view>> Strings(absl::string_view key) const;
  std::optional<std::vector<double>> Numbers(absl::string_view key) const;

  // Asks the system to forget what it holds of the files in memory. Advice only.
  void DropPages() const;

 private:
  struct Mapping {
    std::string path;
    void* data = nullptr;
    size_t size = 0;
  };

  File() = default;
  absl::Status Map(const std::string& path);
  absl::Status Read(const Mapping& mapping, bool first);

  std::vector<Mapping> mappings_;
  std::map<std::string, Value, std::less<>> values_;  // of the first part
  std::map<std::string, Tensor> tensors_;
};

}  // namespace tandem::gguf
