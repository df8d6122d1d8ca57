// Looks up the names of peers, again and again, on a thread of its own: so a pool grows when a replica
// comes, and shrinks when one goes, with nobody telling the orchestrator.
//
// gRPC's own resolver looks again only after a connection broke and some 30 s have passed, and hides the
// addresses behind one channel: then nobody could choose among them by load, or tell one model from
// another. So each address is a peer of its own here, with a channel and a Hello.
//
//   An entry that is an address (10.0.0.7:50052, [::1]:50052) is never looked up, and always there.
//   A name has its IPv4 addresses; where it has none, its IPv6 addresses: a machine with one of each
//   is one peer, not two. An address that two entries have is one peer, of the first.
//   A lookup that fails, or finds nobody, changes nothing: name servers have bad minutes, and a headless
//   Service without a ready pod has no address, while the old ones may still serve.
//   A name that never had an address is asked for again sooner, first after half a second: services that
//   start together should not wait for each other's round.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/address.h"
#include "common/concurrency/clock.h"
#include "orchestrator/peers/peer_address.h"
#include "orchestrator/peers/system_look_up.h"

namespace tandem::orchestrator {

// The addresses of a host, as texts ("10.0.0.7", "::1"), of both families, in any order. May take seconds.
// NOT_FOUND: there is no such host, or it has no address; UNAVAILABLE: it could not be asked. Messages
// name the host. Called on several threads at a time, and maybe still under way when the directory is gone.
using LookUp = std::function<absl::StatusOr<std::vector<std::string>>(const std::string& host)>;

struct DirectoryOptions {
  absl::string_view kind;            // "target", "draft": for the log and for problems
  std::vector<base::Address> names;  // in the flag's order; none twice
  absl::Duration every =
      absl::Seconds(5);  // between the end of a lookup and the next one's begin, +-10 %
  LookUp look_up = SystemLookUp;
  uint64_t seed = 0;  // of the jitter
};

// Thread-safe. One thread a name.
class Directory {
 public:
  // Told when a name was looked up, one call at a time: all that is known, changed or not.
  using Listener = std::function<void(const PeerList& list)>;

  // The first call comes before this returns, with the entries that are addresses; all others on the
  // directory's threads. None of those when no entry is a name. `timers` outlives this.
  Directory(DirectoryOptions options, concurrency::Timers& timers, Listener listener);
  // No call after it, and none under way. Lookups that are (some seconds, where name servers are silent)
  // are not waited for. Not from the listener.
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

 private:
  class State;
  const std::shared_ptr<State> state_;  // shared with the threads whose lookup outlives this
};

}  // namespace tandem::orchestrator
