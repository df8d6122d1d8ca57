// Compiled kernels, kept from start to start in a folder of the user, because compiling takes
// seconds. A file is named by all that it depends on: the sources, the options, NVRTC's version and
// the architecture. Files that were not used for longest go when there is too much.
//
// Nothing that goes wrong with the folder is an error: kernels are then compiled again.
//
// Thread safety: any thread, and any process beside this one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "torch/kernels/kernel_sources.h"
#include "torch/kernels/nvrtc_compiler.h"

namespace tandem::kernels {

class CubinCache {
 public:
  static constexpr int64_t kMaxBytes = 64 << 20;

  // $XDG_CACHE_HOME/tandem/kernels, or ~/.cache/tandem/kernels. Empty: there is no home.
  static std::filesystem::path DefaultFolder();

  // The folder is made when something is kept. Empty: nothing is ever kept.
  explicit CubinCache(std::filesystem::path folder, int64_t max_bytes = kMaxBytes);

  // What a cubin of this program depends on, as a name of a file.
  static std::string Key(const KernelProgram& program, int architecture,
                         absl::string_view compiler_version);

  // Nothing: it is not there, or the file is damaged.
  std::optional<std::string> Find(const std::string& key) const;
  void Keep(const std::string& key, absl::string_view cubin) const;

 private:
  void DropOldest() const;

  const std::filesystem::path folder_;
  const int64_t max_bytes_;
};

// From the cache, or compiled and kept. Errors as NvrtcCompiler::Compile.
absl::StatusOr<std::string> CompileCached(NvrtcCompiler& compiler, const CubinCache& cache,
                                          const KernelProgram& program, int architecture);

}  // namespace tandem::kernels
