// How many threads compute a product.
#pragma once

#include <ATen/Parallel.h>
#include <c10/core/Device.h>

namespace tandem::torch {

// Products of a processor run on several threads, all else on one: LibTorch cuts elementwise work
// at any place, and computes a vector's remainder by other functions than whole vectors. A row at
// such a cut would have other bits.
class ProductThreads {
 public:
  ProductThreads(at::Device device, int threads) : on_(device.is_cpu() && threads > 1) {
    if (on_) at::set_num_threads(threads);
  }
  ~ProductThreads() {
    if (on_) at::set_num_threads(1);
  }

 private:
  const bool on_;
};

}  // namespace tandem::torch
