// The folder of one model in the cache of the Hugging Face hub:
//   models--OWNER--NAME/refs/REVISION        a commit's hash
//   models--OWNER--NAME/snapshots/HASH/FILE  links to the files
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tandem::base {

// The directory with the model's files: the snapshot of refs/main where `directory` is such a
// folder, the only snapshot where it has no refs/main, and `directory` itself where it is none.
// FAILED_PRECONDITION: there is no snapshot, or there are several and none is main; says which, and
// what to give.
//
// Thread safety: anywhere. It reads the file system.
absl::StatusOr<std::string> SnapshotDirectory(const std::string& directory);

}  // namespace tandem::base
