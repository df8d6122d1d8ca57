// LibTorch's graphs, without its headers for them, which are CUDA's: they are in a library of their
// own, libtandem_torch_cuda.so, beside libtandem_torch.so. Only a card needs it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"

namespace tandem::torch {

// Graphs of one pool. All throw what LibTorch throws.
//
// Thread safety: the device's thread alone.
class Capture {
 public:
  virtual ~Capture() = default;

  // What this thread launches on its current stream, which is not the device's default one, is kept
  // until End. Other threads are not held up.
  virtual void Begin() = 0;
  virtual int End() = 0;  // the number of the graph: 0, 1, …
  virtual void Replay(int graph) = 0;
};

// The library's one function: a new Capture. The build is BuildText() of the library.
struct CaptureLibrary {
  const char* build = nullptr;
  Capture* (*make)() = nullptr;
};
inline constexpr char kCaptureEntry[] = "tandem_torch_capture_library";
using CaptureEntry = const CaptureLibrary* (*)();

// FAILED_PRECONDITION: the library is not there, or is of another build. LibTorch's CUDA half is
// loaded.
absl::StatusOr<std::unique_ptr<Capture>> MakeCapture();

}  // namespace tandem::torch
