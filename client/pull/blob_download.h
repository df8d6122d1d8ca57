// Downloads a file of the hub into the cache.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "client/pull/hub_client.h"
#include "client/pull/pull_observer.h"
#include "common/hub/cache.h"

namespace tandem::client {

// How much of a file the cache has already: all of it, or the beginning that an earlier download
// left (blobs/ETAG.incomplete).
int64_t BytesHeld(const hub::RepositoryFolder& folder, const RemoteFile& file);

// Ensures that the blob of a file is in the cache: complete, with the right size and hash, and only
// then under its name. Resumes an interrupted download of any process. Other processes that want
// the same blob wait. UNAVAILABLE: interrupted repeatedly; the received part is kept for the next
// attempt. DATA_LOSS: the received file does not match its hash, and is removed.
// FAILED_PRECONDITION: the cache cannot be written.
absl::Status DownloadBlob(HubClient& client, const std::string& commit, const RemoteFile& file,
                          const hub::RepositoryFolder& folder, PullObserver& observer);

}  // namespace tandem::client
