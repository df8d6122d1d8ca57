// A model of the hub into the cache.
#pragma once

#include "absl/status/statusor.h"
#include "client/pull/pull_observer.h"
#include "common/hub/cache.h"
#include "common/hub/hub_name.h"
#include "common/hub/settings.h"

namespace tandem::client {

// Brings what is needed of a revision into the cache and gives its snapshot: where the name says a
// GGUF file, that file and its parts alone. What the cache has is
// not downloaded again. The revision is known to the cache once all of it is there, so nobody finds
// a part. Any number of processes may pull the same at once, Python's among them.
//
// A whole commit that the cache has is given without asking anybody. Offline, or where nobody
// answers, the cache's snapshot of the revision is given if it is whole; `observer` is told.
//
// Errors: those of HubClient and DownloadBlob; RESOURCE_EXHAUSTED if the disk has no room for what
// is missing; FAILED_PRECONDITION if the repository is no model that Tandem can load.
absl::StatusOr<hub::Snapshot> Pull(const hub::Settings& settings, const hub::HubName& name,
                                   hub::Need need, PullObserver& observer);

}  // namespace tandem::client
