// Memory of a card, or pinned memory of the host, which copies to and from a card read and write
// while the host goes on.
//
// Thread safety: as CudaDriver.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "torch/kernels/cuda_driver.h"

namespace tandem::kernels {

// Its driver outlives it.
class CudaBuffer {
 public:
  enum class Place { kDevice, kPinned };

  CudaBuffer(const CudaDriver& driver, Place place) : driver_(driver), place_(place) {}
  ~CudaBuffer() { Release(); }
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  // Makes it at least so large; if it was smaller, what it held is lost. Nothing on a stream uses
  // it. RESOURCE_EXHAUSTED: there is no room; it is empty then.
  absl::Status Grow(size_t bytes);

  size_t size() const { return size_; }
  // Where it begins, `offset` bytes on; aligned to 256 bytes where `offset` is.
  template <typename T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(address_ + offset);
  }

  // Of a device's: the copy is put on the stream. `host` is pinned, and stays until it ran.
  absl::Status CopyIn(const void* host, size_t bytes, void* stream) const;
  absl::Status CopyOut(size_t offset, void* host, size_t bytes, void* stream) const;

 private:
  void Release();

  const CudaDriver& driver_;
  const Place place_;
  uint64_t address_ = 0;
  size_t size_ = 0;
};

}  // namespace tandem::kernels
