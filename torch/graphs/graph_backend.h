// What graphs ask of a device. A graph is what was launched between BeginCapture and EndCapture,
// with the pointers and the host's numbers that it was launched with; Replay launches it again.
//
// In a capture nothing may wait for the device, and nothing may be taken that is given back, but
// from the pool that all captures share.
#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "torch/graphs/pass_inputs.h"

namespace tandem::torch {

// Thread safety: the device's thread alone.
class GraphBackend {
 public:
  virtual ~GraphBackend() = default;

  // Memory of the device for all that passes of any shape read, which stays where it is for as long
  // as this lives. Not in a capture.
  virtual absl::StatusOr<char*> Allocate(size_t bytes) = 0;

  // Puts a copy on the stream; `from` may change when this returns. Not in a capture.
  virtual absl::Status Upload(const char* from, char* to, size_t bytes) = 0;

  // Launches a pass of this shape, which reads `inputs` (LayoutOf(shape)). What it launches depends
  // on `shape` and `inputs` alone, but in passes that no graph computes.
  virtual absl::Status Compute(const PassShape& shape, const char* inputs) = 0;

  // Waits for the stream. Not in a capture.
  virtual absl::Status Synchronise() = 0;

  // Until EndCapture, what this thread launches on the stream is kept and does not run.
  virtual absl::Status BeginCapture() = 0;
  // The number of the graph: 0, 1, … A capture that failed has ended, too.
  virtual absl::StatusOr<int> EndCapture() = 0;
  virtual absl::Status Replay(int graph) = 0;
};

}  // namespace tandem::torch
