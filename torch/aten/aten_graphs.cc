#include "torch/aten/aten_graphs.h"

#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>
#include <utility>

#include "torch/aten/guarded.h"
#include "torch/aten/upload.h"

namespace tandem::torch {

AtenGraphs::AtenGraphs(at::Device device, std::optional<c10::Stream> stream, Work work)
    : device_(device), stream_(stream), work_(std::move(work)) {}

// One block: that of PassGraphs.
absl::StatusOr<char*> AtenGraphs::Allocate(size_t bytes) {
  const absl::Status status = Guarded("take memory", [&] {
    inputs_ = at::empty({static_cast<int64_t>(bytes)},
                        at::TensorOptions().dtype(at::kByte).device(device_));
  });
  if (!status.ok()) return status;
  return static_cast<char*>(inputs_.data_ptr());
}

absl::Status AtenGraphs::Upload(const char* from, char* to, size_t bytes) {
  if (device_.is_cpu()) {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  return Guarded("upload a pass", [&] {
    const int64_t size = static_cast<int64_t>(bytes);
    const at::Tensor host = HostTensor({size}, at::kByte, device_);
    std::memcpy(host.data_ptr(), from, bytes);
    inputs_.slice(0, 0, size).copy_(host, /*non_blocking=*/true);
  });
}

absl::Status AtenGraphs::Compute(const PassShape& shape, const char* /*inputs*/) {
  return Guarded("compute a pass", [&] { work_(shape, inputs_); });
}

absl::Status AtenGraphs::Synchronise() {
  if (!stream_.has_value()) return absl::OkStatus();
  return Guarded("wait for the device",
                 [&] { c10::impl::VirtualGuardImpl(device_.type()).synchronizeStream(*stream_); });
}

absl::Status AtenGraphs::BeginCapture() {
  if (capture_ == nullptr) {
    absl::StatusOr<std::unique_ptr<Capture>> made = MakeCapture();
    if (!made.ok()) return made.status();
    capture_ = *std::move(made);
  }
  return Guarded("begin a capture", [&] { capture_->Begin(); });
}

absl::StatusOr<int> AtenGraphs::EndCapture() {
  int graph = 0;
  const absl::Status status = Guarded("end a capture", [&] { graph = capture_->End(); });
  if (!status.ok()) return status;
  return graph;
}

absl::Status AtenGraphs::Replay(int graph) {
  return Guarded("replay a graph", [&] { capture_->Replay(graph); });
}

}  // namespace tandem::torch
