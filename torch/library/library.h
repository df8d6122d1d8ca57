// Finds and loads libtandem_torch.so.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "torch/library/interface.h"

namespace tandem::torch {

// The library at `path`. Empty: the first that is there of the program's folder, its sibling `lib`,
// and where the system's loader looks. It stays loaded until the process ends.
//
// NOT_FOUND: there is none; the message says where it was looked for and how to build it.
// FAILED_PRECONDITION: it cannot be loaded (LibTorch is missing, say), it is not a library of
// Tandem, or it was built from other sources or by another compiler than this program.
//
// Thread safety: any thread.
absl::StatusOr<const Library*> LoadLibrary(const std::string& path = "");

}  // namespace tandem::torch
