// Passes by graphs: one for each shape of a pass, captured at the start. The host then launches a
// pass at once instead of a few thousand kernels one by one.
//
//   Capture: for each shape, the largest first: compute a pass of the dummy eagerly ▶ capture it
//   Run:     shape ▶ arrays ▶ upload into the static inputs ▶ replay
#pragma once

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "torch/graphs/graph_backend.h"
#include "torch/graphs/pass_inputs.h"

namespace tandem::torch {

// Thread safety: the device's thread alone.
class PassGraphs {
 public:
  // `backend` outlives it.
  PassGraphs(GraphBackend& backend, const InputSizes& sizes) : backend_(backend), sizes_(sizes) {}

  // Takes the static inputs, and with `capture` captures all shapes; else passes are computed
  // eagerly, from the same inputs. Once. Errors are the backend's.
  absl::Status Prepare(bool capture);

  // At most max_rows rows. `replays`: a graph computes this pass, where there are graphs.
  absl::Status Run(const PassRows& pass, bool replays);

  // That were captured.
  size_t size() const { return graphs_.size(); }

 private:
  absl::Status Capture(const PassShape& shape);
  absl::Status Upload(const PassRows& pass, const PassShape& shape);

  GraphBackend& backend_;
  const InputSizes sizes_;
  char* inputs_ = nullptr;     // on the device
  std::vector<char> staging_;  // the same, of the pass that is put on the stream
  std::vector<std::pair<PassShape, int>> graphs_;
};

}  // namespace tandem::torch
