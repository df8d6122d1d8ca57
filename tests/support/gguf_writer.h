// Writes GGUF files, right ones and wrong ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tandem::testing {

class GgufWriter {
 public:
  void Set(const std::string& key, uint32_t value) { Key(key, 4, Raw(value)); }
  void Set(const std::string& key, float value) { Key(key, 6, Raw(value)); }
  void Set(const std::string& key, double value) { Key(key, 12, Raw(value)); }
  void Set(const std::string& key, bool value) { Key(key, 7, std::string(1, value ? 1 : 0)); }
  void Set(const std::string& key, const std::string& value) { Key(key, 8, Text(value)); }
  void Set(const std::string& key, const char* value) { Set(key, std::string(value)); }
  void Set(const std::string& key, const std::vector<std::string>& values) {
    std::string bytes = Raw(uint32_t{8}) + Raw(uint64_t{values.size()});
    for (const std::string& value : values) bytes += Text(value);
    Key(key, 9, bytes);
  }
  void Set(const std::string& key, const std::vector<float>& values) { Array(key, 6, values); }
  void Set(const std::string& key, const std::vector<int32_t>& values) { Array(key, 5, values); }
  // A value of any type, as its bytes.
  void Key(const std::string& key, uint32_t type, const std::string& bytes) {
    keys_ += Text(key) + Raw(type) + bytes;
    ++key_count;
  }
  // `shape` as PyTorch has it; `type` is ggml's number.
  void Add(const std::string& name, uint32_t type, const std::vector<int64_t>& shape,
           const std::string& data) {
    AddAt(name, type, shape, data_.size());
    data_ += data;
    data_.resize((data_.size() + 31) / 32 * 32);
  }
  void AddAt(const std::string& name, uint32_t type, const std::vector<int64_t>& shape,
             uint64_t offset) {
    tensors_ += Text(name) + Raw(static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i > 0; --i) tensors_ += Raw(static_cast<uint64_t>(shape[i - 1]));
    tensors_ += Raw(type) + Raw(offset);
    ++tensor_count;
  }

  std::string Bytes() const {
    std::string bytes =
        magic + Raw(version) + Raw(tensor_count) + Raw(key_count) + keys_ + tensors_;
    bytes.resize((bytes.size() + 31) / 32 * 32);
    return bytes + data_;
  }

  template <class T>
  static std::string Raw(T value) {
    std::string bytes(sizeof(T), '\0');
    std::memcpy(bytes.data(), &value, sizeof(T));
    return bytes;
  }
  static std::string Text(const std::string& text) { return Raw(uint64_t{text.size()}) + text; }

  std::string magic = "GGUF";
  uint32_t version = 3;
  uint64_t tensor_count = 0, key_count = 0;

 private:
  template <class T>
  void Array(const std::string& key, uint32_t type, const std::vector<T>& values) {
    std::string bytes = Raw(type) + Raw(uint64_t{values.size()});
    for (T value : values) bytes += Raw(value);
    Key(key, 9, bytes);
  }

  std::string keys_, tensors_, data_;
};

}  // namespace tandem::testing
