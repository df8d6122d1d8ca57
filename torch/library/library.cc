#include "torch/library/library.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tandem::torch {
namespace {

constexpr char kFileName[] = "libtandem_torch.so";

// Where a program finds the library that belongs to it.
std::vector<std::string> Places() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const std::filesystem::path folder = self.parent_path();
  return {(folder / kFileName).string(), (folder.parent_path() / "lib" / kFileName).string()};
}

absl::StatusOr<const Library*> Opened(const std::string& path) {
  // Local: LibTorch brings libraries that the program may have in another version.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " cannot be loaded: ", dlerror(),
        "\n  hint: it needs the LibTorch that it was built with; `scripts/setup` installs it"));
  }
  const auto entry = reinterpret_cast<EntryPoint>(dlsym(handle, kEntryPoint));
  if (entry == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a library of Tandem: it has no function ", kEntryPoint));
  }
  const Library* library = entry();
  const char* hint = "\n  hint: build both from the same sources with the same compiler";
  if (library->interface_version != kInterfaceVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, " has interface version ",
                                                      library->interface_version, ", this program ",
                                                      kInterfaceVersion, hint));
  }
  if (std::strcmp(library->build, BuildText()) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(path, " was built as \"", library->build,
                                                      "\", this program as \"", BuildText(), "\"",
                                                      hint));
  }
  return library;
}

}  // namespace

absl::StatusOr<const Library*> LoadLibrary(const std::string& path) {
  if (!path.empty()) return Opened(path);
  std::vector<std::string> places = Places();
  for (const std::string& place : places) {
    std::error_code error;
    if (std::filesystem::exists(place, error)) return Opened(place);
  }
  void* handle = dlopen(kFileName, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return Opened(kFileName);
  places.push_back(dlerror());
  return absl::NotFoundError(absl::StrCat(
      "this device needs ", kFileName, ", which is not here: ", absl::StrJoin(places, ", "),
      "\n  hint: `scripts/setup`, `cmake --preset release` and `cmake --build build/release "
      "--target libtandem_torch` build it; of the images tandem-target-cuda has it (docs/gpu.md)"));
}

}  // namespace tandem::torch
