#include "torch/aten/capture.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "torch/library/interface.h"

namespace tandem::torch {
namespace {

constexpr char kFileName[] = "libtandem_torch_cuda.so";

// Beside the library that this function is in.
std::string CapturePath() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&CapturePath), &info) == 0) return kFileName;
  return (std::filesystem::path(info.dli_fname).parent_path() / kFileName).string();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Capture>> MakeCapture() {
  const std::string path = CapturePath();
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(path, " cannot be loaded: ", dlerror()));
  }
  const auto entry = reinterpret_cast<CaptureEntry>(dlsym(handle, kCaptureEntry));
  if (entry == nullptr || std::strcmp(entry()->build, BuildText()) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is of another build than libtandem_torch.so"));
  }
  return std::unique_ptr<Capture>(entry()->make());
}

}  // namespace tandem::torch
