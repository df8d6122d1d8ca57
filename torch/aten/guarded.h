// LibTorch throws; nothing that it throws leaves the library.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

#include "absl/status/status.h"

namespace tandem::torch {

// INTERNAL: "LibTorch failed to `what`: …".
template <typename Work>
absl::Status Guarded(const char* what, Work work) {
  try {
    work();
  } catch (const c10::Error& error) {
    return absl::InternalError(std::string("LibTorch failed to ") + what + ": " +
                               error.what_without_backtrace());
  } catch (const std::exception& error) {
    return absl::InternalError(std::string("LibTorch failed to ") + what + ": " + error.what());
  }
  return absl::OkStatus();
}

// The other way round, of what one of our kernels says while LibTorch's operations are put on a
// stream.
inline void ThrowIfFailed(const absl::Status& launched) {
  TORCH_CHECK(launched.ok(), launched.message());
}

}  // namespace tandem::torch
