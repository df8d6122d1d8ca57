#include "torch/graphs/pass_graphs.h"

#include <utility>

#include "common/base/status_macros.h"

namespace tandem::torch {

absl::Status PassGraphs::Prepare(bool capture) {
  const std::vector<PassShape> shapes = AllShapes(sizes_);
  TANDEM_ASSIGN_OR_RETURN(inputs_, backend_.Allocate(LayoutOf(shapes.front()).bytes));
  if (!capture) return absl::OkStatus();
  for (const PassShape& shape : shapes) TANDEM_RETURN_IF_ERROR(Capture(shape));
  return absl::OkStatus();
}

// What a first pass of a shape needs once is done before the capture: kernels are loaded, handles
// and workspaces made, and the pool has what the pass takes.
absl::Status PassGraphs::Capture(const PassShape& shape) {
  TANDEM_RETURN_IF_ERROR(Upload({}, shape));
  TANDEM_RETURN_IF_ERROR(backend_.Compute(shape, inputs_));
  TANDEM_RETURN_IF_ERROR(backend_.Synchronise());
  TANDEM_RETURN_IF_ERROR(backend_.BeginCapture());
  const absl::Status computed = backend_.Compute(shape, inputs_);
  const absl::StatusOr<int> graph = backend_.EndCapture();
  TANDEM_RETURN_IF_ERROR(computed);
  TANDEM_RETURN_IF_ERROR(graph.status());
  graphs_.emplace_back(shape, *graph);
  return absl::OkStatus();
}

absl::Status PassGraphs::Upload(const PassRows& pass, const PassShape& shape) {
  staging_.resize(LayoutOf(shape).bytes);
  PackInputs(pass, shape, sizes_, staging_.data());
  return backend_.Upload(staging_.data(), inputs_, staging_.size());
}

absl::Status PassGraphs::Run(const PassRows& pass, bool replays) {
  const PassShape shape = ShapeOf(pass, sizes_);
  TANDEM_RETURN_IF_ERROR(Upload(pass, shape));
  for (const auto& [captured, graph] : graphs_) {
    if (replays && captured == shape) return backend_.Replay(graph);
  }
  return backend_.Compute(shape, inputs_);
}

}  // namespace tandem::torch
