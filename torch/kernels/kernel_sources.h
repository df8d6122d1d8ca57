// The kernels as text: what NVRTC compiles on the machine that has the card. The build puts the
// files of this folder into the program (embed_sources.cmake).
//
// Thread safety: constants.
#pragma once

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace tandem::kernels {

struct SourceFile {
  const char* name;  // from the repository's root, as #include names it
  const char* text;
};

// What the kernels include.
absl::Span<const SourceFile> KernelHeaders();

// One unit of compilation, and the kernels in it.
struct KernelProgram {
  SourceFile source;
  std::vector<std::string> kernels;
};

// All there are.
const std::vector<KernelProgram>& KernelPrograms();

}  // namespace tandem::kernels
