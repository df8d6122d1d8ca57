// libtandem_torch_cuda.so: the part of LibTorch whose headers are CUDA's.
#include <ATen/cuda/CUDAGraph.h>

#include <memory>
#include <vector>

#include "torch/aten/capture.h"
#include "torch/library/interface.h"

namespace tandem::torch {
namespace {

class CudaCapture final : public Capture {
 public:
  void Begin() override {
    graphs_.push_back(std::make_unique<at::cuda::CUDAGraph>());
    graphs_.back()->capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
  }
  int End() override {
    graphs_.back()->capture_end();
    return static_cast<int>(graphs_.size()) - 1;
  }
  void Replay(int graph) override { graphs_[static_cast<size_t>(graph)]->replay(); }

 private:
  const decltype(at::cuda::graph_pool_handle()) pool_ = at::cuda::graph_pool_handle();
  std::vector<std::unique_ptr<at::cuda::CUDAGraph>> graphs_;
};

Capture* Make() { return new CudaCapture; }

}  // namespace
}  // namespace tandem::torch

extern "C" __attribute__((visibility("default"))) const tandem::torch::CaptureLibrary*
tandem_torch_capture_library() {
  static const tandem::torch::CaptureLibrary library = {tandem::torch::BuildText(),
                                                        tandem::torch::Make};
  return &library;
}
