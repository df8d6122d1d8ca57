// From what a user gives as a model to a directory.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/hub/cache.h"
#include "common/hub/settings.h"

namespace tandem::hub {

struct LocalDirectoryOptions {
  Settings settings;
  std::string puller;  // the program `tandem`, which pulls what is not there; empty: nobody does
  // Takes what the pull says, line by line.
  std::function<void(absl::string_view line)> say;
};

// What is in `value`: a path that exists stands for itself, and so does what cannot be a name of
// the hub (an absolute path, say; whoever loads it says what is wrong with it). A name of the hub
// stands for its snapshot in the cache. What the cache has is taken as it is: a service that starts
// again finds the model that it had, with or without a network. Only what the cache does not have
// is pulled.
//
// NOT_FOUND: neither the cache has it nor can it be pulled (no puller, or offline); says what to
// do. UNAVAILABLE: the pull failed; says why. INVALID_ARGUMENT: as ParseHubName.
absl::StatusOr<std::string> LocalDirectory(const std::string& value, Need need,
                                           const LocalDirectoryOptions& options);

// The same with this process's environment and the `tandem` beside its program. Errors begin with
// `flag`. What happens is logged. From the main thread.
absl::StatusOr<std::string> LocalDirectory(absl::string_view flag, const std::string& value,
                                           Need need);

}  // namespace tandem::hub
