// A log line about a peer that comes, goes or is left alone. docs/observability.md has the events.
#pragma once

#include "absl/strings/string_view.h"
#include "common/base/log_fields.h"
#include "orchestrator/peers/peer_address.h"

namespace tandem::orchestrator {

// `kind` is "target" or "draft".
inline base::LogFields PeerLine(absl::string_view event, absl::string_view kind,
                                const PeerAddress& peer) {
  base::LogFields fields(event);
  fields.Add("peer", peer.address).Add("kind", kind);
  if (peer.name != peer.address) fields.Add("name", peer.name);
  return fields;
}

}  // namespace tandem::orchestrator
