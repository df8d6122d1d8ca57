// The folder of one model in the hub's cache (cache.h), given where a model's directory is wanted.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::hub {

// The directory with the model's files: the snapshot of refs/main where `directory` is such a
// folder, the only snapshot where main is not known, and `directory` itself where it is none.
// FAILED_PRECONDITION: there is no snapshot, or there are several and none is main; says which, and
// what to give.
//
// Thread safety: anywhere. It reads the file system.
absl::StatusOr<std::string> SnapshotDirectory(const std::string& directory);

// What the model in `directory` is called: OWNER/NAME if it is such a folder or a snapshot in one,
// else the last part of the path. Empty if that is not a name ("", ".", ".."). It reads no file.
std::string ModelName(absl::string_view directory);

}  // namespace tandem::hub
