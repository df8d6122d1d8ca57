// Values on their way from the host to a device.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tandem::torch {

// To be filled, and given to ToDevice. For a CUDA device it lies in pinned memory: a copy from
// there does not wait for the stream, so a pass is put behind the one that is under way; and one
// that waits goes at the bus's full speed. LibTorch keeps the memory until the copy was made.
inline at::Tensor HostTensor(at::IntArrayRef shape, at::ScalarType type, at::Device device) {
  return at::empty(shape, at::TensorOptions().dtype(type).pinned_memory(device.is_cuda()));
}

inline at::Tensor ToDevice(const at::Tensor& host, at::Device device) {
  return host.to(at::TensorOptions().device(device), /*non_blocking=*/true);
}

inline at::Tensor Uploaded(const std::vector<int64_t>& values, at::Device device) {
  at::Tensor host = HostTensor({static_cast<int64_t>(values.size())}, at::kLong, device);
  std::copy(values.begin(), values.end(), host.data_ptr<int64_t>());
  return ToDevice(host, device);
}

}  // namespace tandem::torch
