// Downloads models of the hub into the cache.
#pragma once

#include "absl/status/statusor.h"
#include "client/pull/pull_observer.h"
#include "common/hub/cache.h"
#include "common/hub/hub_name.h"
#include "common/hub/settings.h"

namespace tandem::client {

// Downloads the required files of a revision into the cache and returns its snapshot; if the name
// has a GGUF file, only that file and its parts. Files in the cache are not downloaded
// again. The revision becomes visible in the cache when it is complete, so no process finds
// a part of it. Several processes may download the same revision at once, Python's among them.
//
// A complete commit in the cache is returned without asking the hub. Offline, or without an answer,
// the cache's snapshot of the revision is returned if it is complete; `observer` is told.
//
// Errors: those of HubClient and DownloadBlob; RESOURCE_EXHAUSTED if the disk has no room for what
// is missing; FAILED_PRECONDITION if the repository is not a model that Tandem can load.
absl::StatusOr<hub::Snapshot> Pull(const hub::Settings& settings, const hub::HubName& name,
                                   hub::Need need, PullObserver& observer);

}  // namespace tandem::client
