// Resolves what a user names as a model to a local directory or file.
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
  std::string puller;  // the program `tandem`, which downloads missing models; empty: no downloads
  // Receives the output of the download, line by line.
  std::function<void(absl::string_view line)> say;
};

// `value` is a path if it exists, or if it cannot be a name of the hub (an absolute path, for
// example; loading it reports what is wrong). A name of the hub is resolved to its snapshot in the
// cache. A cached model is used without asking the hub, so a service that restarts finds the model
// that it had, with or without a network. Only models that are not in the cache are downloaded.
//
// NOT_FOUND: not in the cache and not downloadable (no puller, or offline); says what to do.
// UNAVAILABLE: the download failed; says why. INVALID_ARGUMENT: as ParseHubName.
absl::StatusOr<std::string> LocalDirectory(const std::string& value, Need need,
                                           const LocalDirectoryOptions& options);

// The same with this process's environment and the `tandem` beside its program. Errors begin with
// `flag`. Progress is logged. Call it on the main thread.
absl::StatusOr<std::string> LocalDirectory(absl::string_view flag, const std::string& value,
                                           Need need);

}  // namespace tandem::hub
