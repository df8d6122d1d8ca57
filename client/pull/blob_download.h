// One file of the hub into the cache.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/pull/hub_client.h"
#include "client/pull/pull_observer.h"
#include "common/hub/cache.h"

namespace tandem::client {

// Of what a download has to bring, how much a cache has already: all of it, or the beginning that
// an earlier one left (blobs/ETAG.incomplete).
int64_t BytesHeld(const hub::RepositoryFolder& folder, const RemoteFile& file);

// Makes sure that the blob of a file is in the cache: whole, of the right size and hash, and under
// its name only then. Goes on where an earlier download was cut, of whatever process. Others that
// want the same blob meanwhile wait. UNAVAILABLE: it was cut again and again; what came stays for
// the next time. DATA_LOSS: what the hub sends is not what its hash says; nothing of it stays.
// FAILED_PRECONDITION: the cache cannot be written.
absl::Status DownloadBlob(HubClient& client, const std::string& commit, const RemoteFile& file,
                          const hub::RepositoryFolder& folder, PullObserver& observer);

}  // namespace tandem::client
