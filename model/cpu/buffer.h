// Zeroed memory for weights, activations and the key/value pool: aligned to cache lines, on huge
// pages where the system gives them, and paid for only where it is touched.
#pragma once

#include <cstddef>

namespace tandem::model::cpu {

// Movable, not copyable. Aborts the process when the address space is exhausted (std::bad_alloc).
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  size_t bytes() const { return bytes_; }
  float* floats() { return static_cast<float*>(data_); }
  const float* floats() const { return static_cast<const float*>(data_); }
  void* data() { return data_; }
  const void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

inline Buffer FloatBuffer(size_t floats) { return Buffer(floats * sizeof(float)); }

}  // namespace tandem::model::cpu
