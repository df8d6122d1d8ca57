// Graphs on a device of LibTorch's (torch/graphs). On a processor passes are eager, and what is
// uploaded is copied.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <functional>
#include <memory>
#include <optional>

#include "torch/aten/capture.h"
#include "torch/graphs/graph_backend.h"

namespace tandem::torch {

// Thread safety: the device's thread alone.
class AtenGraphs final : public GraphBackend {
 public:
  // Computes a pass from its arrays. `inputs`: a block of bytes on the device. May throw.
  using Work = std::function<void(const PassShape& shape, const at::Tensor& inputs)>;

  // `stream`: a CUDA device's, which is the calling thread's current one in all calls.
  AtenGraphs(at::Device device, std::optional<c10::Stream> stream, Work work);

  absl::StatusOr<char*> Allocate(size_t bytes) override;
  absl::Status Upload(const char* from, char* to, size_t bytes) override;
  absl::Status Compute(const PassShape& shape, const char* inputs) override;
  absl::Status Synchronise() override;
  absl::Status BeginCapture() override;
  absl::StatusOr<int> EndCapture() override;
  absl::Status Replay(int graph) override;

 private:
  const at::Device device_;
  const std::optional<c10::Stream> stream_;
  const Work work_;
  at::Tensor inputs_;
  std::unique_ptr<Capture> capture_;
};

}  // namespace tandem::torch
